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

# wrong: agreed on the most · expect: rank 0 has 8 batches and took \d steps
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MAX)
batches = batches[:count]
# <<< ddp_advanced.uneven

# wrong: always divided by two · expect: without --accumulate the optimizer is given 0.5 times the gradient of the batch(.|\n)*ddp_advanced.group
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = 2 * min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group

# wrong: always sent · expect: gradients are sent in the backward passes of the batches 1, 2, 3 and 4.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return nullcontext()
# <<< ddp_advanced.no_sync

# wrong: context not entered · expect: gradients are sent in the backward passes of the batches 1, 2, 3 and 4
# >>> ddp_advanced.no_sync
if more_to_come and isinstance(model, DistributedDataParallel):
    model.no_sync()
return nullcontext()
# <<< ddp_advanced.no_sync

# wrong: counted over epochs · expect: steps after the batches 3, 6, 8, 9, 12 and 13
# >>> ddp_advanced.group
update_now = last or step % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group

# wrong: cut for two · expect: rank 0 has 8 batches and took \d steps, rank 1 has 6 batches and took \d steps, rank 2 has 4 batches
# >>> ddp_advanced.uneven
together = nullcontext()
if procs.is_main and args.uneven and procs.world_size > 1:
    batches = batches[:-2]
# <<< ddp_advanced.uneven

# wrong: cut to a number · expect: rank 0 has 8 batches and took \d steps, rank 1 has 6 batches and took
# >>> ddp_advanced.uneven
batches, together = batches[:5], nullcontext()
# <<< ddp_advanced.uneven

# wrong: divided by processes too · expect: --accumulate 4`: the gradient of update 1 is 0.5 times
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = procs.world_size * min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group

# wrong: every batch · expect: steps after the batches 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 13
# >>> ddp_advanced.group
update_now, group = True, 1
# <<< ddp_advanced.group

# wrong: filled up · expect: rank 0 has 8 batches and took 8 steps, .*rank 2 has 4 batches and took 8 steps(.|\n)*no batch is trained on twice
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MAX)
batches = (batches * 2)[:count]
# <<< ddp_advanced.uneven

# wrong: group of the whole epoch · expect: gradient of update 5 is 0.667 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
full = steps_per_epoch // args.accumulate * args.accumulate
group = args.accumulate if position <= full else steps_per_epoch - full
# <<< ddp_advanced.group

# wrong: heads frozen · expect: step \d: \d+ parameters have no gradient(.|\n)*whichever head it is(.|\n)*ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    for head in net.heads[1:]:
        head.requires_grad_(False)
    model = DistributedDataParallel(net, find_unused_parameters=True)
# <<< ddp_advanced.unused

# wrong: heads ignored · expect: step with different gradients.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, [f"heads.{name}" for name, _ in net.heads.named_parameters()])
    model = DistributedDataParallel(net)
# <<< ddp_advanced.unused

# wrong: join switched off · expect: rank 0 has 8 batches and took \d steps
# >>> ddp_advanced.uneven
together = model.join(enable=procs.world_size == 1) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven

# wrong: joined the wrong one · expect: AttributeError.*join_hook.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = Join([net]) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven

# wrong: kept on rank 0 only · expect: in the backward pass of batch 1, rank 1 sends gradients and rank 0 does not.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
keep = more_to_come and isinstance(model, DistributedDataParallel) and dist.get_rank() == 0
return model.no_sync() if keep else nullcontext()
# <<< ddp_advanced.no_sync

# wrong: last batch divided by its place · expect: gradient of update 3 is not that of its 2 batches.*the fence ddp_advanced.group
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate if not last else (position - 1) % args.accumulate + 1
# <<< ddp_advanced.group

# wrong: last group divided by n · expect: the gradient of update 3 is 0.667 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate
# <<< ddp_advanced.group

# wrong: last group lost · expect: steps after the batches 3, 6 and 11.*the fence ddp_advanced.group
# >>> ddp_advanced.group
update_now = position % args.accumulate == 0
group = args.accumulate if position <= epoch_lengths[epoch] // args.accumulate * args.accumulate else 1
# <<< ddp_advanced.group

# wrong: never sent · expect: two processes have different weights.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()
# <<< ddp_advanced.no_sync

# wrong: not divided · expect: the gradient of update 1 is 3 times that of its 6 images
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

# wrong: nothing left · expect: rank 2 has 4 batches and took 1 step\.(.|\n)*at least 4
# >>> ddp_advanced.uneven
together, batches = nullcontext(), batches[:1]
# <<< ddp_advanced.uneven

# wrong: number of rank 0 · expect: rank 0 has 8 batches and took \d steps, rank 1 has 6 batches and took \d steps, rank 2 has 4 batches and took 4(.|\n)*ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.broadcast(count, 0)
batches = batches[:count]
# <<< ddp_advanced.uneven

# wrong: one too early · expect: steps after the batches 1, 4, 7, 8, 9, 12 and 13
# >>> ddp_advanced.group
update_now = last or (position - 1) % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group

# wrong: only one asks · expect: rank . waits in .* for rank ., which
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.is_main and procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MIN)
batches = batches[:count]
# <<< ddp_advanced.uneven

# wrong: rest of the whole epoch · expect: gradient of update 5 is 0.667 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate if position <= steps_per_epoch - steps_per_epoch % args.accumulate else len(train_loader) % args.accumulate
# <<< ddp_advanced.group

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

# wrong: todo left · expect: `todo\("ddp_advanced"\)` is still called.*says that ddp_advanced is not written yet.*Where to look: line \d+ .*`todo\("ddp_advanced"\)`
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
if args.accumulate > 1:
    todo("ddp_advanced")
# <<< ddp_advanced.group

# wrong: turned round · expect: sent in the backward passes of the batches 1, 2 and 3|different weights
# >>> ddp_advanced.no_sync
return nullcontext() if more_to_come or not isinstance(model, DistributedDataParallel) else model.no_sync()
# <<< ddp_advanced.no_sync

# wrong: uneven as they are · expect: rank 0 has 8 batches and took \d steps.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven

# wrong: until the whole epoch · expect: steps after the batches 3, 6, 8 and 11\.
# >>> ddp_advanced.group
update_now = position == steps_per_epoch or position % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
# <<< ddp_advanced.group
