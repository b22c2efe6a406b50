# expect: `of_image` makes of a uint8 image \(3, 24, 32\) float32
# >>> augmentation.randaugment
return v2.Compose([v2.RandAugment(), v2.ToDtype(torch.float32, scale=True)])
# <<< augmentation.randaugment
