# expect: returns the class RandAugment itself.*the fence augmentation.randaugment
# >>> augmentation.randaugment
return v2.RandAugment
# <<< augmentation.randaugment
