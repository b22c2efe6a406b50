# >>> augmentation.randaugment
one = v2.RandomChoice([
    v2.Identity(), v2.RandomAffine(0, shear=(5, 5, 0, 0)), v2.RandomAffine(0, shear=(0, 0, 5, 5)),
    v2.RandomAffine(0, translate=(0.1, 0)), v2.RandomAffine(0, translate=(0, 0.1)), v2.RandomRotation(9),
    v2.ColorJitter(brightness=(0.7, 0.71)), v2.ColorJitter(saturation=(0.7, 0.71)), v2.ColorJitter(contrast=(0.7, 0.71)),
    v2.RandomAdjustSharpness(1.3, p=1), v2.RandomPosterize(7, p=1), v2.RandomSolarize(178, p=1), v2.RandomAutocontrast(p=1),
    v2.RandomEqualize(p=1)])
return v2.Compose([one, one])
# <<< augmentation.randaugment
