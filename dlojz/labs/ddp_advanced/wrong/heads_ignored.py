# expect: step with different gradients.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, [f"heads.{name}" for name, _ in net.heads.named_parameters()])
    model = DistributedDataParallel(net)
# <<< ddp_advanced.unused
