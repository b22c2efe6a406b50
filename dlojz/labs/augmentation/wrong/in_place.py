# expect: `cutmix` changes the batch that it is given
# >>> augmentation.cutmix
soft = targets.clone()
for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
    images[i, :, top:bottom, left:right] = images[j, :, top:bottom, left:right]
    replaced = (right - left) * (bottom - top) / images[i, 0].numel()
    soft[i] = (1 - replaced) * targets[i] + replaced * targets[j]
return images, soft
# <<< augmentation.cutmix
