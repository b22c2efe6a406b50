# expect: `draw` with alpha 0.2 gives every image the same lambda
# >>> augmentation.draw
lam = rng.beta(alpha, alpha)
return torch.full((count,), lam), torch.tensor(rng.permutation(count)), torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw
