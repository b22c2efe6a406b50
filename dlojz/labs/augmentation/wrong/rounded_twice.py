# expect: `mixup` of uint8 images is off by up to (0.[6-9]|1)(.|\n)*rounded to the nearest, and only once
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = (share * images).to(images.dtype) + ((1 - share) * images[partner]).to(images.dtype)
return mixed, lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup
