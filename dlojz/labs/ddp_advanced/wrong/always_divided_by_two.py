# expect: without --accumulate the optimizer is given 0.5 times the gradient of the batch(.|\n)*ddp_advanced.group
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = 2 * min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group
