# expect: some images are partners of several others
# >>> augmentation.draw
partner = torch.tensor(rng.integers(0, count, count))
return torch.tensor(rng.beta(alpha, alpha, count)).float(), partner, torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw
