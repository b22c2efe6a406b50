# >>> ddp_advanced.group
starts = range(0, epoch_lengths[epoch], args.accumulate)
ends = {min(start + args.accumulate, epoch_lengths[epoch]): start for start in starts}
end = min(end for end in ends if end >= position)
update_now, group = end == position, end - ends[end]
# <<< ddp_advanced.group
# >>> ddp_advanced.no_sync
if not more_to_come or not hasattr(model, "no_sync"):
    return nullcontext()
return model.no_sync()
# <<< ddp_advanced.no_sync
# >>> ddp_advanced.uneven
together = nullcontext()
if procs.world_size > 1:
    together = Join([model], throw_on_early_termination=False)
# <<< ddp_advanced.uneven
