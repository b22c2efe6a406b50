# TODO: two transforms out of fourteen, drawn anew for each image. torchvision.transforms.v2 (here `v2`) has them.
todo("augmentation")
return None
