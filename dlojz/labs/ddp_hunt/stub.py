# >>> ddp_hunt.epochs
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
sampler = DistributedSampler(train_set, shuffle=True, seed=1)
loader = DataLoader(train_set, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader, epoch)
# <<< ddp_hunt.epochs

# >>> ddp_hunt.accuracy
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
accuracy = right(mine) / (last - first)
dist.all_reduce(accuracy)
accuracy = accuracy.item() / place.world_size
# <<< ddp_hunt.accuracy

# >>> ddp_hunt.checkpoint
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
if place.is_main:
    torch.save(model.state_dict(), file)
# <<< ddp_hunt.checkpoint

# >>> ddp_hunt.saving
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
if place.is_main:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
    dist.barrier()
# <<< ddp_hunt.saving

# >>> ddp_hunt.step
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
optimizer.zero_grad()
outputs = model.module(points)
loss = nn.functional.cross_entropy(outputs, labels)
loss.backward()
optimizer.step()
# <<< ddp_hunt.step

# >>> ddp_hunt.noise
# TODO: something is wrong from here on. Find it by what the script does, and mend it.
generator = torch.Generator().manual_seed(SEED)
# <<< ddp_hunt.noise
