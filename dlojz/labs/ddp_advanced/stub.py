# >>> ddp_advanced.group
# TODO: with --accumulate N the optimizer steps after the last of N batches (`update_now`), and each loss is divided by the
# number of batches in its group (`group`). An epoch may end with fewer than N: their group is smaller.
update_now, group = True, 1
if args.accumulate > 1:
    todo("ddp_advanced")
# <<< ddp_advanced.group

# >>> ddp_advanced.no_sync
# TODO: the context for forward and backward pass: no gradients are sent while more batches of the group follow.
if more_to_come:
    todo("ddp_advanced")
return nullcontext()
# <<< ddp_advanced.no_sync

# >>> ddp_advanced.unused
# TODO: wrap `net` where there are several processes. In each step most heads get no gradient: DDP has to cope with that.
model = net
if procs.world_size > 1:
    todo("ddp_advanced")
# <<< ddp_advanced.unused

# >>> ddp_advanced.uneven
# TODO: a context in which a process that has run out of batches does not keep the others waiting; or shorten `batches`,
# so that all processes have the same number.
together = nullcontext()
if args.uneven and procs.world_size > 1:
    todo("ddp_advanced")
# <<< ddp_advanced.uneven
