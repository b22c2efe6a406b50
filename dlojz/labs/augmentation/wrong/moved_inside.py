# expect: boxes are moved into the image where they reach over its border(.|\n)*cut off where the image ends
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
centre = torch.maximum(torch.minimum(centres * size, size - half), half)
return torch.cat([centre - half, centre + half], 1).round().long()
# <<< augmentation.boxes
