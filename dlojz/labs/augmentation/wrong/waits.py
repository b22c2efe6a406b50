# expect: `mixup` waits for the GPU: tolist(.|\n)*stays on the device
# >>> augmentation.mixup
share = torch.tensor(lam.tolist()).to(images.device)[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
mixed = mixed if images.is_floating_point() else mixed.round()
return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup
