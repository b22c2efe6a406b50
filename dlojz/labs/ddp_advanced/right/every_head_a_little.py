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
