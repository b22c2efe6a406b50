# >>> augmentation.batch
# TODO: where there is a mixer, the batch goes through it, here on the device: see on_device in augment.py.
if args.augment in augment.ALPHA:
    todo("augmentation")
# <<< augmentation.batch

# >>> augmentation.randaugment
# TODO: two transforms out of fourteen, drawn anew for each image. torchvision.transforms.v2 (here `v2`) has them.
todo("augmentation")
return None
# <<< augmentation.randaugment

# >>> augmentation.loader
# TODO: the batch as it is made here, mixed. This object is called with images, labels and a number that no other batch has.
todo("augmentation")
return default_collate(samples)
# <<< augmentation.loader

# >>> augmentation.draw
# TODO: all three from rng, a numpy Generator. As it is, every image keeps all of itself and is its own partner.
return torch.ones(count), torch.arange(count), torch.full((count, 2), 0.5)
# <<< augmentation.draw

# >>> augmentation.labels
# TODO: a row for each image, with a share for each class. A loop over images would wait for the device.
return labels
# <<< augmentation.labels

# >>> augmentation.mixup
# TODO: images and labels in the same shares, images in the type that they had.
todo("augmentation")
return images, targets
# <<< augmentation.mixup

# >>> augmentation.cutmix_batch
# TODO: what `cutmix` does, without its loop: a mask for all images, (B, H, W), says which pixels lie in their image's box.
todo("augmentation")
return images, targets
# <<< augmentation.cutmix_batch
