# expect: one call takes an image through 3 transforms
# >>> augmentation.randaugment
return v2.RandAugment(num_ops=3, magnitude=9)
# <<< augmentation.randaugment
