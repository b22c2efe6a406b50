# expect: where the check has `mixed, soft = augment.mixup.*Where to look: the fence augmentation.mixup, line
# >>> augmentation.mixup
share = lam.to(images.device)[:, None, None, None]
return (share * images + (1 - share) * images[partner]).to(images.dtype)
# <<< augmentation.mixup
