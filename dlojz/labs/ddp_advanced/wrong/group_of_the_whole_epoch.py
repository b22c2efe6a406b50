# expect: gradient of update 5 is 0.667 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
full = steps_per_epoch // args.accumulate * args.accumulate
group = args.accumulate if position <= full else steps_per_epoch - full
# <<< ddp_advanced.group
