# TODO: the same without a loop: a mask for all images, (B, H, W), says which pixels lie in their image's box.
todo("augmentation")
return images, targets
