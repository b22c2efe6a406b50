# TODO: images and labels in the same shares, images in the type that they had.
todo("augmentation")
return images, targets
