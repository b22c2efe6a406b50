# expect: given a model with BatchNorm2d(.|\n)*ddp.sync_bn
# >>> ddp.sync_bn
pass
# <<< ddp.sync_bn
