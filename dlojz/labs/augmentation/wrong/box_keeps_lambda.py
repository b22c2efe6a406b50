# expect: the boxes cover lambda of the image and not what is left of it
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = lam.sqrt()[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)
# <<< augmentation.boxes
