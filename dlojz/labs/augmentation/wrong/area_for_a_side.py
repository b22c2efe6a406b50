# expect: boxes are too small: for a lambda of 0.75 one covers \d+ pixels of 600
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam)[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)
# <<< augmentation.boxes
