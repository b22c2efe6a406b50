# expect: the second epoch deals out the images in the order of the first(.|\n)*ddp.epoch
# >>> ddp.epoch
pass
# <<< ddp.epoch
