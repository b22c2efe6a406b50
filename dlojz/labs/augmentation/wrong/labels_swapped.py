# expect: `mixup` of float32 images: the soft labels are lam of the partner and 1 - lam of the image itself
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
mixed = mixed if images.is_floating_point() else mixed.round()
return mixed.to(images.dtype), (1 - lam[:, None]) * targets + lam[:, None] * targets[partner]
# <<< augmentation.mixup
