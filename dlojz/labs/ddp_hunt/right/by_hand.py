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
