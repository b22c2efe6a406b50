# expect: `cutmix_batch`, image 0: 8.3% of its pixels are replaced, and the labels weigh 1.000.*as they came in
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[:, :, None, None].unbind(1)
y, x = (torch.arange(size, device=box.device) for size in images.shape[2:])
inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)
return torch.where(inside[:, None], images[partner], images), targets
# <<< augmentation.cutmix_batch
