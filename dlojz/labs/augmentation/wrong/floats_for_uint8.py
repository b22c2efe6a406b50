# expect: `mixup` of uint8 images: they become float32 \(6, 3, 20, 30\)
# >>> augmentation.mixup
share = lam[:, None, None, None]
return share * images + (1 - share) * images[partner], lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup
