# expect: steps after the batches 3, 6, 8 and 11\.
# >>> ddp_advanced.group
update_now = position == steps_per_epoch or position % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group
