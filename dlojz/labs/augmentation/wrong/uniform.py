# expect: `draw` with alpha 0.2: lambda has a mean of 0.5\d? and a variance of 0.08\d(.|\n)*those of Beta\(0.2, 0.2\): 0.5 and 0.179
# >>> augmentation.draw
lam = rng.random(count)
return torch.tensor(lam).float(), torch.tensor(rng.permutation(count)), torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw
