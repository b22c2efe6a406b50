# expect: `draw` takes from torch's generator: what the model draws comes out otherwise
# >>> augmentation.draw
lam = torch.distributions.Beta(alpha, alpha).sample((count,))
return lam, torch.randperm(count), torch.rand(count, 2)
# <<< augmentation.draw
