# expect: boxes end a pixel before the border: \[16, 12, 29, 19\](.|\n)*cut off where the image ends
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size - 1).flatten(1)
# <<< augmentation.boxes
