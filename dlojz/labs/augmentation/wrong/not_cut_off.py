# expect: the boxes reach over the border(.|\n)*cut off where the image ends(.|\n)*augmentation.boxes
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
return torch.stack([centres * size - half, centres * size + half], 1).round().long().flatten(1)
# <<< augmentation.boxes
