# TODO: with --accumulate N the optimizer steps after the last of N batches (`update_now`), and each loss is divided by the
# number of batches in its group (`group`). An epoch may end with fewer than N: their group is smaller.
update_now, group = True, 1
if args.accumulate > 1:
    todo("ddp_advanced")
