# expect: boxes reach over the lower border: \[16, 12, 30, 26\](.|\n)*cut off where the image ends
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(0, width).flatten(1)
# <<< augmentation.boxes
