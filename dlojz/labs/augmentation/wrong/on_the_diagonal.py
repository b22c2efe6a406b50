# expect: `draw`: x and y of an image vary together \(correlation 1.00\)
# >>> augmentation.draw
centres = rng.random((count, 1)).repeat(2, 1)
return torch.tensor(rng.beta(alpha, alpha, count)).float(), torch.tensor(rng.permutation(count)), torch.tensor(centres).float()
# <<< augmentation.draw
