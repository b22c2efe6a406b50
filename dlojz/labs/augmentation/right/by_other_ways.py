# >>> augmentation.randaugment
from torchvision import transforms

return transforms.RandAugment(num_ops=2, magnitude=10, fill=[124, 116, 104])
# <<< augmentation.randaugment
# >>> augmentation.draw
other = torch.Generator().manual_seed(int(rng.integers(2**62)))
lam = torch.from_numpy(rng.dirichlet([alpha, alpha], count)[:, 0].astype("float32"))
return lam, torch.randperm(count, generator=other), torch.rand(count, 2, generator=other)
# <<< augmentation.draw
# >>> augmentation.labels
table = torch.full((classes + 1, classes), smoothing / classes, device=labels.device)
table[:classes] += (1 - smoothing) * torch.eye(classes, device=labels.device)
table[classes] = 0
return table[torch.where(labels < 0, classes, labels)]
# <<< augmentation.labels
# >>> augmentation.mixup
both = torch.stack([images.float(), images[partner].float()])
mixed = torch.einsum("kb,kbchw->bchw", torch.stack([lam, 1 - lam]), both)
mixed = mixed if images.is_floating_point() else mixed.round_()
return mixed.type_as(images), targets[partner] + lam.unsqueeze(1) * (targets - targets[partner])
# <<< augmentation.mixup
# >>> augmentation.boxes
half = 0.5 * torch.sqrt(1 - lam)  # as torchvision's CutMix: whole pixels of the centre and of half a side
x, y = (centres[:, 0] * width).int(), (centres[:, 1] * height).int()
w, h = (half * width).int(), (half * height).int()
return torch.stack([(x - w).clamp(min=0), (y - h).clamp(min=0), (x + w).clamp(max=width), (y + h).clamp(max=height)], 1).long()
# <<< augmentation.boxes
# >>> augmentation.cutmix_batch
height, width = images.shape[2:]
x, y = torch.arange(width, device=box.device), torch.arange(height, device=box.device)
across, down = (x >= box[:, 0, None]) ^ (x >= box[:, 2, None]), (y >= box[:, 1, None]) ^ (y >= box[:, 3, None])
inside = torch.einsum("by,bx->byx", down.float(), across.float()).bool()[:, None]
replaced = (across.sum(1) * down.sum(1) / (height * width)).unsqueeze(1)
return torch.where(inside, images[partner], images), torch.lerp(targets, targets[partner], replaced)
# <<< augmentation.cutmix_batch
