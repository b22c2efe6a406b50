# expect: the boxes give top, left, bottom, right
# >>> augmentation.boxes
size = torch.tensor([height, width])
half = (1 - lam).sqrt()[:, None] * size / 2
centre = centres.flip(1) * size
corners = torch.stack([centre - half, centre + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)
# <<< augmentation.boxes
