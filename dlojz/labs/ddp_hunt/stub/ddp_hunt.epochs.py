# TODO: something is wrong from here on. Find it by what the script does, and mend it.
sampler = DistributedSampler(train_set, shuffle=True, seed=1)
loader = DataLoader(train_set, batch_size=8, sampler=sampler)
for epoch in range(3):
    train(loader, epoch)
