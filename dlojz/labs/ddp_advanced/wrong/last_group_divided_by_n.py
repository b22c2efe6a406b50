# expect: the gradient of update 3 is 0.667 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate
# <<< ddp_advanced.group
