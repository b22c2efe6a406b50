# >>> augmentation.labels
known = (labels >= 0).float()[:, None]
rows = torch.full((len(labels), classes), smoothing / classes, device=labels.device) * known
return rows.scatter_add(1, labels.clamp(min=0)[:, None], known * (1 - smoothing))
# <<< augmentation.labels
# >>> augmentation.mixup
mixed = torch.lerp(images[partner].float(), images.float(), lam.view(-1, 1, 1, 1))
if images.dtype == torch.uint8:
    mixed = mixed.add(0.5).floor()
return mixed.to(images.dtype), torch.lerp(targets[partner], targets, lam.unsqueeze(1))
# <<< augmentation.mixup
