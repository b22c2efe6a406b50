# expect: steps after the batches 1, 4, 7, 8, 9, 12 and 13
# >>> ddp_advanced.group
update_now = last or (position - 1) % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group
