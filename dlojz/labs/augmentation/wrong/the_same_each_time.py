# expect: the model gets the same pixels in each step(.|\n)*other random numbers in each step
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, 0)
# <<< augmentation.batch
