# expect: one call takes an image through \d transforms(.|\n)*Expected: two(.|\n)*augmentation.randaugment
# >>> augmentation.randaugment
return v2.AugMix()
# <<< augmentation.randaugment
