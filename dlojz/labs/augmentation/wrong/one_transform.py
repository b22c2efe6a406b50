# expect: \d+ of 200 calls with one image leave it as it was(.|\n)*two transforms(.|\n)*augmentation.randaugment
# >>> augmentation.randaugment
return v2.TrivialAugmentWide()
# <<< augmentation.randaugment
