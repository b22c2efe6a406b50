# >>> augmentation.randaugment
augmentation = v2.RandAugment(2, 9, interpolation=v2.InterpolationMode.BILINEAR)


def transform(image):
    return augmentation(image)


return transform
# <<< augmentation.randaugment
# >>> augmentation.draw
one, other = rng.gamma(alpha, size=count), rng.gamma(alpha, size=count)
lam = torch.from_numpy(one / (one + other)).to(torch.float32)
partner = torch.from_numpy(rng.random(count).argsort())
return lam, partner, torch.from_numpy(rng.random((count, 2), dtype="float32"))
# <<< augmentation.draw
