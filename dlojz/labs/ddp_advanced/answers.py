# right: agreed steps
# >>> ddp_advanced.unused
model = DistributedDataParallel(net, find_unused_parameters=True) if dist.is_initialized() else net
# <<< ddp_advanced.unused
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, op=dist.ReduceOp.MIN)
del batches[int(count):]
# <<< ddp_advanced.uneven

# right: counted down
# >>> ddp_advanced.group
behind = (position - 1) % args.accumulate  # batches of this group before this one
left = epoch_lengths[epoch] - position  # batches of this epoch after it
update_now = left == 0 or behind == args.accumulate - 1
group = behind + 1 + min(left, args.accumulate - 1 - behind)
# <<< ddp_advanced.group
# >>> ddp_advanced.no_sync
from contextlib import contextmanager


@contextmanager
def by_hand():
    before, model.require_backward_grad_sync = getattr(model, "require_backward_grad_sync", True), not more_to_come
    try:
        yield
    finally:
        model.require_backward_grad_sync = before


return by_hand()
# <<< ddp_advanced.no_sync

# right: every head a little
# >>> ddp_advanced.unused
class All(nn.Module):
    """Every head takes part in the loss, most of them times nothing."""

    def forward(self, points, head):
        hidden = net.trunk(points)
        return sum(each(hidden) * (number == head) for number, each in enumerate(net.heads))


model = net
if procs.world_size > 1:
    model = All()
    model.net = net
    model = DistributedDataParallel(model)
# <<< ddp_advanced.unused
# >>> ddp_advanced.uneven
together = model.join(divide_by_initial_world_size=False) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven

# right: in two lines
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

# right: switched by hand
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

# wrong: always sent · expect: gradients are sent in the backward passes of batches 1, 2, 3 and 4.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return nullcontext()
# <<< ddp_advanced.no_sync

# wrong: counted over epochs · expect: steps after the batches 3, 6, 8, 9, 12 and 13
# >>> ddp_advanced.group
update_now = last or step % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group

# wrong: last group divided by n · expect: step 8: the norm of the gradients is .*, 0.667 times what it should be.*ddp_advanced.group
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate
# <<< ddp_advanced.group

# wrong: last group lost · expect: steps after the batches 3, 6 and 11.*the fence ddp_advanced.group
# >>> ddp_advanced.group
update_now = position % args.accumulate == 0
group = args.accumulate if position <= epoch_lengths[epoch] // args.accumulate * args.accumulate else 1
# <<< ddp_advanced.group

# wrong: never sent · expect: step 4: gradients are sent in the backward passes of batches none.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()
# <<< ddp_advanced.no_sync

# wrong: not divided · expect: step 3: the norm of the gradients is .*, 3 times what it should be.*ddp_advanced.group
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = 1
# <<< ddp_advanced.group

# wrong: not for one process · expect: AttributeError.*no_sync.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return model.no_sync() if more_to_come else nullcontext()
# <<< ddp_advanced.no_sync

# wrong: not told · expect: Expected to have finished reduction.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    model = DistributedDataParallel(net)
# <<< ddp_advanced.unused

# wrong: not wrapped · expect: step with different gradients.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
# <<< ddp_advanced.unused
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven

# wrong: static graph · expect: stops with RuntimeError.*graph has changed.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    model = DistributedDataParallel(net, static_graph=True)
# <<< ddp_advanced.unused

# wrong: thrown at the first end · expect: rank . stops with an error that Join raises.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = Join([model], throw_on_early_termination=True) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven

# wrong: uneven as they are · expect: rank 0 has 8 batches and took \d steps.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven

# wrong: batches left out · expect: `heads.py .* --batches 5 .*the training has 4 batches.*5: none is left out.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
batches = batches[: args.batches - 1]
# <<< ddp_advanced.uneven
