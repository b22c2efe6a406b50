# expect: the gradient of update 2 is 0.333 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate
# <<< ddp_advanced.group
