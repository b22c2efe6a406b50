# right: in other words
# >>> fsdp_hunt.optimizer
for block in net[:-1]:
    fully_shard(block, reshard_after_forward=True)
fully_shard(net)
optimizer = torch.optim.AdamW([each for _, each in net.named_parameters()], lr=0.02)
# <<< fsdp_hunt.optimizer
# >>> fsdp_hunt.root
for module in (*net[:-1], net):
    fully_shard(module)
# <<< fsdp_hunt.root
# >>> fsdp_hunt.blocks
for module in reversed(list(net.children())[:-1]):
    fully_shard(module)
fully_shard(net)
# <<< fsdp_hunt.blocks
# >>> fsdp_hunt.call
outputs = net.__call__(points)
# <<< fsdp_hunt.call
# >>> fsdp_hunt.save
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

state = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
if dist.get_rank() == 0:
    torch.save(state, file)
# <<< fsdp_hunt.save
# >>> fsdp_hunt.norm
squares = torch.stack([each.grad.to_local().square().sum() for each in net.parameters()]).sum()
dist.all_reduce(squares)
norm = squares.sqrt().item()
for each in net.parameters():
    each.grad.mul_(min(1.0, 0.01 / norm))
# <<< fsdp_hunt.norm

# right: each layer by itself
# >>> fsdp_hunt.root
for layer in net:
    fully_shard(layer)
fully_shard(net)
# <<< fsdp_hunt.root
# >>> fsdp_hunt.blocks
for layer in net:
    fully_shard(layer)
fully_shard(net)
# <<< fsdp_hunt.blocks
# >>> fsdp_hunt.norm
norm = torch.stack([each.grad.full_tensor().norm() for each in net.parameters()]).norm().item()
for each in net.parameters():
    each.grad.mul_(min(1.0, 0.01 / norm))
# <<< fsdp_hunt.norm

# wrong: optimizer too early · expect: fsdp_1.py` prints `step 4: loss(.|\n)*where the optimizer updates the parts(.|\n)*fsdp_hunt.optimizer
# >>> fsdp_hunt.optimizer
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
for module in (*net[:-1], net):
    fully_shard(module)
# <<< fsdp_hunt.optimizer

# wrong: DDP instead · expect: fsdp_1.py`(.|\n)*is given to DistributedDataParallel(.|\n)*which may not fit(.|\n)*fsdp_hunt.optimizer
# >>> fsdp_hunt.optimizer
net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
# <<< fsdp_hunt.optimizer

# wrong: root forgotten · expect: fsdp_2.py` prints `sum of all parameters, by process(.|\n)*fsdp_hunt.root
# >>> fsdp_hunt.root
for block in net[:-1]:
    fully_shard(block)
# <<< fsdp_hunt.root

# wrong: root alone · expect: of 8448 in the blocks at most 8448 are whole at a time(.|\n)*fsdp_hunt.blocks
# >>> fsdp_hunt.blocks
fully_shard(net)
# <<< fsdp_hunt.blocks

# wrong: blocks kept whole · expect: fsdp_3.py` prints (.|\n)*are whole at a time(.|\n)*fsdp_hunt.blocks
# >>> fsdp_hunt.blocks
for block in net[:-1]:
    fully_shard(block, reshard_after_forward=False)
fully_shard(net)
# <<< fsdp_hunt.blocks

# wrong: past the hooks · expect: hunt/fsdp_4.py(.|\n)*stops with RuntimeError(.|\n)*fsdp_hunt.call
# >>> fsdp_hunt.call
outputs = net.last(net.features(points))
# <<< fsdp_hunt.call

# wrong: forward called · expect: hunt/fsdp_4.py(.|\n)*stops with RuntimeError(.|\n)*fsdp_hunt.call
# >>> fsdp_hunt.call
outputs = net.forward(points)
# <<< fsdp_hunt.call

# wrong: rank 0 gathers · expect: hunt/fsdp_5.py(.|\n)*fsdp_hunt.save
# >>> fsdp_hunt.save
if place.is_main:
    state = {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}
    torch.save(state, file)
# <<< fsdp_hunt.save

# wrong: all save · expect: rank 1\)(.|\n)*it saves once(.|\n)*spoil it(.|\n)*fsdp_hunt.save
# >>> fsdp_hunt.save
state = {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}
torch.save(state, file)
# <<< fsdp_hunt.save

# wrong: part saved · expect: hunt/fsdp_5.py`(.|\n)* prints `rank 0 reads(.|\n)*fsdp_hunt.save
# >>> fsdp_hunt.save
if place.is_main:
    torch.save({name: each.to_local().cpu() for name, each in net.state_dict().items()}, file)
# <<< fsdp_hunt.save

# wrong: parts saved as they are · expect: fsdp_5.py` prints `rank 0 reads 0 whole parameters(.|\n)*the file has the whole model(.|\n)*fsdp_hunt.save
# >>> fsdp_hunt.save
if place.is_main:
    torch.save(net.state_dict(), file)
# <<< fsdp_hunt.save

# wrong: other numbers saved · expect: fsdp_5.py` prints `rank 0 reads 234 whole parameters, of norm 0.0000(.|\n)*fsdp_hunt.save
# >>> fsdp_hunt.save
if place.is_main:
    torch.save({name: torch.zeros(each.shape) for name, each in net.state_dict().items()}, file)
# <<< fsdp_hunt.save

# wrong: norm of parts · expect: fsdp_6.py` prints `step 0: norm(.|\n)*fsdp_hunt.norm
# >>> fsdp_hunt.norm
norm = torch.stack([each.grad.to_local().norm() for each in net.parameters()]).norm().item()
for each in net.parameters():
    each.grad.mul_(min(1.0, 0.01 / norm))
# <<< fsdp_hunt.norm

# wrong: norms added · expect: fsdp_6.py` prints `step 0: norm(.|\n)*fsdp_hunt.norm
# >>> fsdp_hunt.norm
norm = torch.stack([each.grad.to_local().norm() for each in net.parameters()]).norm()
dist.all_reduce(norm)
norm = norm.item()
for each in net.parameters():
    each.grad.mul_(min(1.0, 0.01 / norm))
# <<< fsdp_hunt.norm
