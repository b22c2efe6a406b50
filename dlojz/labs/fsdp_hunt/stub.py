# >>> fsdp_hunt.optimizer
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
for module in (*net[:-1], net):
    fully_shard(module)
# <<< fsdp_hunt.optimizer

# >>> fsdp_hunt.root
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
for block in net[:-1]:
    fully_shard(block)
# <<< fsdp_hunt.root

# >>> fsdp_hunt.blocks
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
fully_shard(net)
# <<< fsdp_hunt.blocks

# >>> fsdp_hunt.call
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
outputs = net.last(net.features(points))
# <<< fsdp_hunt.call

# >>> fsdp_hunt.save
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
if place.is_main:
    state = {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}
    torch.save(state, file)
# <<< fsdp_hunt.save

# >>> fsdp_hunt.norm
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
norm = torch.stack([each.grad.to_local().norm() for each in net.parameters()]).norm().item()
for each in net.parameters():
    each.grad.mul_(min(1.0, 0.01 / norm))
# <<< fsdp_hunt.norm
