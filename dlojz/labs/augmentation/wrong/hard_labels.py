# expect: --augment mixup.*the loss compares with int64 labels(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    images, _ = mixer(images, labels, step)
# <<< augmentation.batch
