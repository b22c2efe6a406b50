# expect: the second epoch mixes its images in the same shares as the first one(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, position)
# <<< augmentation.batch
