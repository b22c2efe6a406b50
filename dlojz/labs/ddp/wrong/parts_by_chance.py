# expect: both read \d+ of the images in epoch 0(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    chance = torch.Generator().manual_seed(args.seed + procs.rank)
    sampler = RandomSampler(train_set, num_samples=len(train_set) // procs.world_size, generator=chance)
    sampler.set_epoch = lambda epoch: chance.manual_seed(args.seed + procs.rank + 100 * epoch)
# <<< ddp.sampler
