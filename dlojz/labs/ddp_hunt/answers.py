# right: by hand
# >>> ddp_hunt.step
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model.module(points), labels)
loss.backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad /= place.world_size
optimizer.step()
# <<< ddp_hunt.step
# >>> ddp_hunt.epochs
for epoch in range(3):
    order = torch.randperm(64, generator=torch.Generator().manual_seed(epoch))[place.rank :: place.world_size].tolist()
    train(DataLoader(train_set, batch_size=8, sampler=order), epoch)
# <<< ddp_hunt.epochs
# >>> ddp_hunt.noise
generator = torch.Generator()
generator.manual_seed(hash((SEED, place.rank)) % 2**31)
# <<< ddp_hunt.noise

# right: other words
# >>> ddp_hunt.epochs
sampler = DistributedSampler(train_set)
for epoch in range(3):
    sampler.set_epoch(10 + epoch)
    train(DataLoader(train_set, batch_size=8, sampler=sampler), epoch)
# <<< ddp_hunt.epochs
# >>> ddp_hunt.accuracy
counts = distributed.from_everyone((right(mine).item(), last - first))
accuracy = sum(correct for correct, _ in counts) / sum(points for _, points in counts)
# <<< ddp_hunt.accuracy
# >>> ddp_hunt.checkpoint
if place.rank == 0:
    torch.save(net.state_dict(), file)
# <<< ddp_hunt.checkpoint
# >>> ddp_hunt.saving
if place.rank == 0:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
    dist.barrier()
else:
    dist.barrier()
# <<< ddp_hunt.saving
# >>> ddp_hunt.step
loss = nn.functional.cross_entropy(model(points), labels)
optimizer.zero_grad()
loss.backward()
optimizer.step()
# <<< ddp_hunt.step
# >>> ddp_hunt.noise
torch.manual_seed(SEED + place.rank)
generator = None
# <<< ddp_hunt.noise

# right: weighted
# >>> ddp_hunt.accuracy
accuracy = right(mine) / (last - first)
weight = torch.tensor((last - first) / 10, device=device)
accuracy *= weight
dist.all_reduce(accuracy)
accuracy = accuracy.item()
# <<< ddp_hunt.accuracy
# >>> ddp_hunt.checkpoint
if place.is_main:
    torch.save({name.removeprefix("module."): tensor for name, tensor in model.state_dict().items()}, file)
# <<< ddp_hunt.checkpoint
# >>> ddp_hunt.saving
written = torch.zeros(1, device=device)
if place.is_main:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
    written += 1
dist.broadcast(written, 0)
# <<< ddp_hunt.saving

# wrong: accuracy by each of all · expect: ddp_2.py: rank \d looks at 10 points(.|\n)*ddp_hunt.accuracy
# >>> ddp_hunt.accuracy
accuracy = right(slice(0, 10)).item() / 10
# <<< ddp_hunt.accuracy

# wrong: accuracy of one · expect: ddp_2.py` prints `over the processes, rank \d says: (.|\n)*ddp_hunt.accuracy
# >>> ddp_hunt.accuracy
accuracy = right(mine).item() / (last - first)
# <<< ddp_hunt.accuracy

# wrong: checkpoint by all · expect: ddp_3.py \(rank 1\)`, step 20: it saves 1 times(.|\n)*ddp_hunt.checkpoint
# >>> ddp_hunt.checkpoint
torch.save(model.module.state_dict(), file)
# <<< ddp_hunt.checkpoint

# wrong: checkpoint of the wrapper · expect: ddp_3.py` prints `loss of the trained model .*, of the loaded one .*`, and the kit's(.|\n)*ddp_hunt.checkpoint
# >>> ddp_hunt.checkpoint
if dist.get_rank() == 0:
    torch.save(dict(model.state_dict()), file)
# <<< ddp_hunt.checkpoint

# wrong: noise by local rank · expect: rank 1 makes the move .* in step 0, as rank 0 does in step 0(.|\n)*ddp_hunt.noise
# >>> ddp_hunt.noise
generator = torch.Generator().manual_seed(SEED + 1000 * place.local_rank)
# <<< ddp_hunt.noise

# wrong: noise not repeatable · expect: ddp_6.py: a second run makes other moves(.|\n)*ddp_hunt.noise
# >>> ddp_hunt.noise
generator = torch.Generator()
generator.seed()
# <<< ddp_hunt.noise

# wrong: order told once · expect: ddp_1.py: two epochs have the points in the same order(.|\n)*ddp_hunt.epochs
# >>> ddp_hunt.epochs
sampler = DistributedSampler(train_set, shuffle=True, seed=1)
sampler.set_epoch(1)
loader = DataLoader(train_set, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader, epoch)
# <<< ddp_hunt.epochs

# wrong: order without parts · expect: ddp_1.py: a rank is given 24 batches in three epochs
# >>> ddp_hunt.epochs
loader = DataLoader(train_set, batch_size=8, shuffle=True)
for epoch in range(3):
    train(loader, epoch)
# <<< ddp_hunt.epochs

# wrong: saving waits alone · expect: hunt/ddp_4.py`: rank \d waits in `barrier` \(line \d+\) for rank \d, which waits, too, in line \d+(.|\n)*dist.barrier\(\)
# >>> ddp_hunt.saving
if place.rank == 0:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
    dist.barrier()
# <<< ddp_hunt.saving

# wrong: saving without waiting · expect: rank 1\)` prints `rank 1 has read what was saved in epoch 0`(.|\n)*ddp_hunt.saving
# >>> ddp_hunt.saving
if place.is_main:
    torch.save({"epoch": epoch, "model": net.state_dict()}, file)
# <<< ddp_hunt.saving

# wrong: step by the module · expect: ddp_5.py, step 0: each process updates with a gradient of its own(.|\n)*ddp_hunt.step
# >>> ddp_hunt.step
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model.module.forward(points), labels)
loss.backward()
optimizer.step()
# <<< ddp_hunt.step

# wrong: step with the sum · expect: ddp_5.py, step 0: the norm of the gradients is .*, 2 times what it should be(.|\n)*ddp_hunt.step
# >>> ddp_hunt.step
optimizer.zero_grad()
loss = nn.functional.cross_entropy(model(points), labels)
loss.backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
optimizer.step()
# <<< ddp_hunt.step

# wrong: checkpoint of the object · expect: it saves a Sequential(.|\n)*a dict(.|\n)*ddp_hunt.checkpoint
# >>> ddp_hunt.checkpoint
if place.is_main:
    torch.save(model.module, file)
# <<< ddp_hunt.checkpoint
