# expect: `cutmix`, image \d: .* of its pixels are those of its partner.*not as the box says(.|\n)*the partner's as it came in
# >>> augmentation.cutmix
mixed, soft = images.clone(), targets.clone()
for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
    mixed[i, :, top:bottom, left:right] = mixed[j, :, top:bottom, left:right]
    replaced = (right - left) * (bottom - top) / images[i, 0].numel()
    soft[i] = (1 - replaced) * targets[i] + replaced * targets[j]
return mixed, soft
# <<< augmentation.cutmix
