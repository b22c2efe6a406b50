# expect: the soft labels are mixed with another image than `partner` says
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
mixed = mixed if images.is_floating_point() else mixed.round()
inverse = torch.stack([(partner == i).nonzero().flatten()[:1].sum() for i in range(len(partner))])
return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets[inverse]
# <<< augmentation.mixup
