# expect: the soft labels are mixed with those of the batch turned round
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = (share * images + (1 - share) * images[partner])
mixed = mixed if images.is_floating_point() else mixed.round()
return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets.flip(0)
# <<< augmentation.mixup
