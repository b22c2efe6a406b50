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
