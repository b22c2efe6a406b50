# expect: its pixels are mixed in others(.|\n)*one and the same call(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    hard = labels
    images, _ = mixer(images, hard, step)
    _, labels = mixer(images, hard, step + 1)
# <<< augmentation.batch
