# expect: --accumulate 4`: the gradient of update 1 is 0.5 times
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = procs.world_size * min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group
