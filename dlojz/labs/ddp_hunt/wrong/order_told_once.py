# expect: ddp_1.py: two epochs deal out the points in the same order(.|\n)*ddp_hunt.epochs
# >>> ddp_hunt.epochs
sampler = DistributedSampler(train_set, shuffle=True, seed=1)
sampler.set_epoch(1)
loader = DataLoader(train_set, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader, epoch)
# <<< ddp_hunt.epochs
