# right: the other way round
# >>> fsdp.mesh
ranks = torch.arange(dist.get_world_size())
if replicas > 1:
    return dist.device_mesh.DeviceMesh(device_type, ranks.view(replicas, -1), mesh_dim_names=("replicate", "shard"))
return dist.device_mesh.DeviceMesh(device_type, ranks, mesh_dim_names=("shard",))
# <<< fsdp.mesh
# >>> fsdp.shard
blocks = dict(net.named_children())["blocks"]
for block in reversed(blocks):
    fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
fully_shard(net, mesh=mesh, mp_policy=policy)  # by default the root stays whole
# <<< fsdp.shard
# >>> fsdp.accumulate
net.set_requires_gradient_sync(requires_gradient_sync=not more_to_come)
net.set_is_last_backward(not more_to_come)
# <<< fsdp.accumulate

# right: parts one by one
# >>> fsdp.precision
half = torch.bfloat16 if amp == "bf16" else None
return MixedPrecisionPolicy(half, torch.float32, cast_forward_inputs=False)
# <<< fsdp.precision
# >>> fsdp.prefetch
order = [*net.blocks]
for place in range(len(order)):
    after = [order[other] for other in range(place + 1, len(order)) if other <= place + ahead]
    before = [order[other] for other in range(place - 1, -1, -1) if other >= place - ahead]
    order[place].set_modules_to_forward_prefetch(after)
    order[place].set_modules_to_backward_prefetch(before)
# <<< fsdp.prefetch
# >>> fsdp.save
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

state = {"model": net.state_dict(), "optimizer": get_optimizer_state_dict(net, optimizer)}
if not wait:
    return dcp.async_save(state, checkpoint_id=folder, process_group=dist.new_group(backend="gloo"))
dcp.save(state, storage_writer=dcp.FileSystemWriter(folder))
# <<< fsdp.save
# >>> fsdp.load
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

state = {"model": net.state_dict(), "optimizer": get_optimizer_state_dict(net, optimizer)}
dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
net.load_state_dict(state["model"])
set_optimizer_state_dict(net, optimizer, state["optimizer"])
# <<< fsdp.load
# >>> fsdp.whole
found = {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}
return found if dist.get_rank() == 0 else {}
# <<< fsdp.whole

# right: states by number, which are made to be read into
# >>> fsdp.save
state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
return (dcp.save(state, checkpoint_id=folder) if wait else
        dcp.async_save(state, checkpoint_id=folder, process_group=aside()))
# <<< fsdp.save
# >>> fsdp.load
for each in net.parameters():
    each.grad = torch.zeros_like(each)
optimizer.step()
optimizer.zero_grad()
state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
dcp.load(state, checkpoint_id=folder)
net.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
# <<< fsdp.load

# right: states one by one, of which rank 0 writes the many settings
# >>> fsdp.save
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

options = StateDictOptions(flatten_optimizer_state_dict=True)
state = {"model": get_model_state_dict(net), "optimizer": get_optimizer_state_dict(net, optimizer, options=options)}
return (dcp.save(state, checkpoint_id=folder) if wait else
        dcp.async_save(state, checkpoint_id=folder, process_group=aside()))
# <<< fsdp.save
# >>> fsdp.load
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_model_state_dict, set_optimizer_state_dict

options, model = StateDictOptions(flatten_optimizer_state_dict=True), get_model_state_dict(net)
dcp.load({"model": model}, checkpoint_id=folder)
set_model_state_dict(net, model)
states = get_optimizer_state_dict(net, optimizer, options=options)
dcp.load({"optimizer": states}, checkpoint_id=folder)
set_optimizer_state_dict(net, optimizer, states, options=options)
# <<< fsdp.load

# wrong: root forgotten · expect: each process holds all of embedding.weight, (.|\n)*also of what is in no block(.|\n)*fsdp.shard
# >>> fsdp.shard
for block in net.blocks:
    fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
# <<< fsdp.shard

# wrong: blocks forgotten · expect: blocks.0, blocks.1, blocks.2 and blocks.3 are not gathered separately(.|\n)*fsdp.shard
# >>> fsdp.shard
fully_shard(net, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
# <<< fsdp.shard

# wrong: keep as it is called · expect: keep=False\)`: 0 all-gathers in a backward pass(.|\n)*4: each block is gathered again
# >>> fsdp.shard
for block in net.blocks:
    fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=keep)
fully_shard(net, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
# <<< fsdp.shard

# wrong: root gathered again · expect: keep=False\)`: 5 all-gathers in a backward pass(.|\n)*the root is still whole
# >>> fsdp.shard
for block in net.blocks:
    fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
fully_shard(net, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
# <<< fsdp.shard

# wrong: angles cast · expect: the `turn` that a block is given is bfloat16(.|\n)*inputs stay as they are(.|\n)*fsdp.precision
# >>> fsdp.precision
if amp == "off":
    return MixedPrecisionPolicy()
return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
# <<< fsdp.precision

# wrong: sums in half · expect: gradients are summed over processes in bfloat16(.|\n)*float32(.|\n)*fsdp.precision
# >>> fsdp.precision
if amp == "off":
    return MixedPrecisionPolicy()
return MixedPrecisionPolicy(param_dtype=torch.bfloat16, cast_forward_inputs=False)
# <<< fsdp.precision

# wrong: a policy for the blocks alone · expect: 1 of 5 modules are gathered in float32(.|\n)*blocks and root are given the `policy`(.|\n)*fsdp.shard
# >>> fsdp.shard
for block in net.blocks:
    fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
fully_shard(net, mesh=mesh, reshard_after_forward=False)
# <<< fsdp.shard

# wrong: sync reversed · expect: the first group: 5, 5 and 0(.|\n)*fsdp.accumulate
# >>> fsdp.accumulate
net.set_requires_gradient_sync(more_to_come)
# <<< fsdp.accumulate

# wrong: one ahead · expect: `prefetch\(net, 2\)`, forward pass: (.|\n)*1, 1, 1 and 0(.|\n)*2, 2, 1 and 0(.|\n)*fsdp.prefetch
# >>> fsdp.prefetch
for block, following in zip(net.blocks, net.blocks[1:]):
    block.set_modules_to_forward_prefetch([following])
    following.set_modules_to_backward_prefetch([block])
# <<< fsdp.prefetch

# wrong: the farthest block first · expect: `prefetch\(net, 2\)`, backward pass: (.|\n)*3, 1, 2 and 0(.|\n)*3, 2, 1 and 0(.|\n)*fsdp.prefetch
# >>> fsdp.prefetch
order = list(net.blocks)
for place, block in enumerate(order):
    block.set_modules_to_forward_prefetch(order[place + 1 : place + 1 + ahead])
    block.set_modules_to_backward_prefetch(order[max(0, place - ahead) : place])
# <<< fsdp.prefetch

# wrong: rank 0 has all · expect: one file has 100% of all bytes(.|\n)*each process writes its own half(.|\n)*fsdp.save
# >>> fsdp.save
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
model, states = get_state_dict(net, optimizer, options=options)
return (dcp.save if wait else dcp.async_save)({"model": model, "optimizer": states}, checkpoint_id=folder)
# <<< fsdp.save

# wrong: rank 0 saves alone · expect: (waits in vain|was still running)(.|\n)*all processes make the same collective calls(.|\n)*fsdp.save
# >>> fsdp.save
model, states = get_state_dict(net, optimizer)
if dist.get_rank() == 0:
    state = {"model": model, "optimizer": states}
    return dcp.save(state, checkpoint_id=folder) if wait else dcp.async_save(state, checkpoint_id=folder, process_group=aside())
# <<< fsdp.save

# wrong: among the training's messages · expect: the thread that writes sends its messages in the process group of the training
# >>> fsdp.save
model, states = get_state_dict(net, optimizer)
if wait:
    return dcp.save({"model": model, "optimizer": states}, checkpoint_id=folder)
return dcp.async_save({"model": model, "optimizer": states}, checkpoint_id=folder)
# <<< fsdp.save

# wrong: written aside, not copied · expect: `save\(…, wait=False\)`, a step of training, then `load`: \S+ (.|\n)*fsdp.save
# >>> fsdp.save
from concurrent.futures import ThreadPoolExecutor

from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

state = {"model": net.state_dict(), "optimizer": get_optimizer_state_dict(net, optimizer)}
if wait:
    return dcp.save(state, checkpoint_id=folder)
return ThreadPoolExecutor(1).submit(dcp.save, state, checkpoint_id=folder, process_group=aside())
# <<< fsdp.save

# wrong: a future of what is done already · expect: returns when the files are written already(.|\n)*training goes on meanwhile(.|\n)*fsdp.save
# >>> fsdp.save
from concurrent.futures import Future

model, states = get_state_dict(net, optimizer)
dcp.save({"model": model, "optimizer": states}, checkpoint_id=folder)
found = Future()
found.set_result(None)
return None if wait else found
# <<< fsdp.save

# wrong: states not saved · expect: stops with CheckpointException: RuntimeError: Missing key in checkpoint state_dict: optimizer(.|\n)*fsdp.save
# >>> fsdp.save
state = {"model": net.state_dict()}
return (dcp.save(state, checkpoint_id=folder) if wait else
        dcp.async_save(state, checkpoint_id=folder, process_group=aside()))
# <<< fsdp.save

# wrong: always waits · expect: wait=False\)` returns no future(.|\n)*fsdp.save
# >>> fsdp.save
model, states = get_state_dict(net, optimizer)
dcp.save({"model": model, "optimizer": states}, checkpoint_id=folder)
# <<< fsdp.save

# wrong: states forgotten · expect: (exp_avg|step) of \S+ is not what was saved(.|\n)*all states(.|\n)*fsdp.load
# >>> fsdp.load
model, states = get_state_dict(net, optimizer)
dcp.load({"model": model}, checkpoint_id=folder)
set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=states)
# <<< fsdp.load

# wrong: one learning rate for all groups · expect: the learning rate of group 1 is not what was saved(.|\n)*fsdp.load
# >>> fsdp.load
model, states = get_state_dict(net, optimizer)
dcp.load({"model": model, "optimizer": states}, checkpoint_id=folder)
set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=states)
for group in optimizer.param_groups:
    group["lr"] = optimizer.param_groups[0]["lr"]
# <<< fsdp.load

# wrong: all keep all · expect: `whole` returns \d+ tensors on rank 1, too(.|\n)*memory for one copy(.|\n)*fsdp.whole
# >>> fsdp.whole
return {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}
# <<< fsdp.whole

# wrong: gathered by rank 0 alone · expect: `save`, `load` and `whole` with 2 processes (.|\n)*the same collective calls(.|\n)*fsdp.whole
# >>> fsdp.whole
if dist.get_rank() != 0:
    return {}
return {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}
# <<< fsdp.whole

# wrong: parts only · expect: values on rank 0 are no plain tensors(.|\n)*fsdp.whole
# >>> fsdp.whole
return net.state_dict() if dist.get_rank() == 0 else {}
# <<< fsdp.whole

# wrong: replicas apart · expect: the mesh is \[\[0, 2\], \[1, 3\]\](.|\n)*neighbours share a replica(.|\n)*fsdp.mesh
# >>> fsdp.mesh
world = dist.get_world_size()
if replicas == 1:
    return init_device_mesh(device_type, (world,), mesh_dim_names=("shard",))
ranks = torch.arange(world).view(-1, replicas).t()
return dist.device_mesh.DeviceMesh(device_type, ranks, mesh_dim_names=("replicate", "shard"))
# <<< fsdp.mesh
