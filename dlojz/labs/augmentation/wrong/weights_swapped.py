# expect: `cutmix`, image 0: 8.3% of its pixels are replaced, and the labels weigh 0.083 \(its own\) and 0.917.*the wrong way round
# >>> augmentation.cutmix
mixed, soft = images.clone(), targets.clone()
for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
    mixed[i, :, top:bottom, left:right] = images[j, :, top:bottom, left:right]
    kept = (right - left) * (bottom - top) / images[i, 0].numel()
    soft[i] = kept * targets[i] + (1 - kept) * targets[j]
return mixed, soft
# <<< augmentation.cutmix
