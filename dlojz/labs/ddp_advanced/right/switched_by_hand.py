# >>> ddp_advanced.group
number = -(-position // args.accumulate)  # of this group in its epoch, from 1
final = min(number * args.accumulate, epoch_lengths[epoch])
update_now, group = position == final, float(final - (number - 1) * args.accumulate)
# <<< ddp_advanced.group
# >>> ddp_advanced.no_sync
if isinstance(model, DistributedDataParallel):
    model.require_backward_grad_sync = not more_to_come
return nullcontext()
# <<< ddp_advanced.no_sync
# >>> ddp_advanced.uneven
together = nullcontext()
if procs.world_size > 1:
    counts = [None] * procs.world_size
    dist.all_gather_object(counts, len(batches))
    batches = batches[: min(counts)]
# <<< ddp_advanced.uneven
