# expect: 200 calls with one image give \d+ different ones(.|\n)*each drawn anew
# >>> augmentation.randaugment
return v2.RandomHorizontalFlip()
# <<< augmentation.randaugment
