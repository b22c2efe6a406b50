# expect: `cutmix_batch` takes \d+ operations of torch for 6 images and \d+ for 48(.|\n)*as many for any number
# >>> augmentation.cutmix_batch
return cutmix(images, targets, box, partner)
# <<< augmentation.cutmix_batch
