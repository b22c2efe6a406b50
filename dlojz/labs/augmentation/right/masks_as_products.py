# >>> augmentation.cutmix_batch
height, width = images.shape[-2:]
columns = torch.arange(width, device=images.device).expand(len(images), -1)
rows = torch.arange(height, device=images.device).expand(len(images), -1)
across = (columns >= box[:, 0:1]) & (columns < box[:, 2:3])
down = (rows >= box[:, 1:2]) & (rows < box[:, 3:4])
mask = (down[:, :, None] & across[:, None, :]).unsqueeze(1)
lam = 1 - mask.flatten(1).float().mean(1, keepdim=True)
return images.masked_fill(mask, 0) + images[partner].masked_fill(~mask, 0), lam * targets + (1 - lam) * targets[partner]
# <<< augmentation.cutmix_batch
# >>> augmentation.batch
if mixer:
    mixed = mixer(images, labels, at=step)
    images, labels = mixed
# <<< augmentation.batch
