# expect: steps after the batches 3, 6 and 11.*the fence ddp_advanced.group
# >>> ddp_advanced.group
update_now = position % args.accumulate == 0
group = args.accumulate if position <= epoch_lengths[epoch] // args.accumulate * args.accumulate else 1
# <<< ddp_advanced.group
