# expect: stops with RuntimeError: Expected all tensors to be on the same device(.|\n)*augmentation.cutmix_batch
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[:, :, None, None].unbind(1)
y, x = (torch.arange(size).cuda() for size in images.shape[2:])
inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)
replaced = ((right - left) * (bottom - top))[:, 0] / images[0, 0].numel()
return torch.where(inside[:, None], images[partner], images), (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch
