# expect: 200 calls use 2 kinds of transforms(.|\n)*all fourteen of RandAugment
# >>> augmentation.randaugment
return v2.Compose([v2.RandomRotation(27), v2.RandomPosterize(7, p=0.5)])
# <<< augmentation.randaugment
