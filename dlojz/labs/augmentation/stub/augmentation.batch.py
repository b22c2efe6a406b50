# TODO: where there is a mixer, the batch goes through it, here on the device: see on_device in augment.py.
if args.augment in augment.ALPHA:
    todo("augmentation")
