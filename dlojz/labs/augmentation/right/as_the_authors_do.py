# >>> augmentation.boxes
found = []
for share, (cx, cy) in zip(lam.tolist(), centres.tolist()):
    ratio = (1 - share) ** 0.5
    w, h = width * ratio, height * ratio
    edges = [cx * width - w / 2, cy * height - h / 2, cx * width + w / 2, cy * height + h / 2]
    found.append([int(min(max(round(edge), 0), most)) for edge, most in zip(edges, (width, height, width, height))])
return torch.tensor(found, dtype=torch.int64).view(-1, 4)
# <<< augmentation.boxes
# >>> augmentation.cutmix
other, other_targets = images[partner], targets[partner]
mixed, weights = images.clone(), []
for i in range(len(images)):
    x1, y1, x2, y2 = (int(edge) for edge in box[i])
    mixed[i, :, y1:y2, x1:x2] = other[i, :, y1:y2, x1:x2]
    weights.append(1 - (x2 - x1) * (y2 - y1) / (images.size(-1) * images.size(-2)))
lam = torch.tensor(weights).to(targets.device)[:, None]
return mixed, targets * lam + other_targets * (1 - lam)
# <<< augmentation.cutmix
