# expect: `train.py --augment none.*stops with TypeError(.|\n)*the fence augmentation.batch
# >>> augmentation.batch
images, labels = mixer(images, labels, step)
# <<< augmentation.batch
