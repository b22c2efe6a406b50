# TODO: image by image, the simple way: a loop. Labels by the area that was really replaced.
todo("augmentation")
return images, targets
