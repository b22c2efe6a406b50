# expect: `cutmix_batch` puts the same box into all images(.|\n)*each image has its own
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[0].tolist()
mixed = images.clone()
mixed[:, :, top:bottom, left:right] = images[partner][:, :, top:bottom, left:right]
replaced = (right - left) * (bottom - top) / images[0, 0].numel()
return mixed, (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch
