# expect: ddp_1.py: in epoch 0 both processes together see 32 of the 64 points(.|\n)*ddp_hunt.epochs
# >>> ddp_hunt.epochs
for epoch in range(3):
    sampler = DistributedSampler(train_set, num_replicas=place.world_size, rank=place.local_rank, seed=epoch)
    train(DataLoader(train_set, batch_size=8, sampler=sampler), epoch)
# <<< ddp_hunt.epochs
