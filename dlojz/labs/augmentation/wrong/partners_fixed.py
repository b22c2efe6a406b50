# expect: gives the same partner for `rng` with another seed
# >>> augmentation.draw
partner = torch.arange(count).roll(1)
return torch.tensor(rng.beta(alpha, alpha, count)).float(), partner, torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw
