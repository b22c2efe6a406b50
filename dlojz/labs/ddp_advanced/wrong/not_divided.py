# expect: the gradient of update 1 is 3 times that of its 6 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = 1
# <<< ddp_advanced.group
