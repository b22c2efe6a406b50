# expect: `todo\("augmentation"\)` is still called.*says that augmentation is not written yet.*Where to look: line \d+ .*`todo\("augmentation"\)`
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, step)
if args.augment in augment.ALPHA:
    todo("augmentation")
# <<< augmentation.batch
