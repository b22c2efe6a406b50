# expect: ddp_2.py: rank 1 says that the accuracy is 0.3
# >>> ddp_hunt.accuracy
sums = torch.stack([right(mine), torch.tensor(float(last - first), device=device)])
dist.reduce(sums, 0)
accuracy = (sums[0] / sums[1]).item() if place.is_main else right(mine).item() / (last - first)
# <<< ddp_hunt.accuracy
