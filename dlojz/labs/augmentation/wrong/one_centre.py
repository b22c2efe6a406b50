# expect: `draw` gives all images the same centre.*the fence augmentation.draw
# >>> augmentation.draw
centres = torch.tensor(rng.random((1, 2))).float().expand(count, 2)
return torch.tensor(rng.beta(alpha, alpha, count)).float(), torch.tensor(rng.permutation(count)), centres
# <<< augmentation.draw
