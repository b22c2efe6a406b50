# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group(backend={"cpu": "gloo", "cuda": "nccl"}[device.type], rank=procs.rank, world_size=procs.world_size)
# <<< ddp.init
# >>> ddp.sampler
if procs.world_size > 1:
    class Part(torch.utils.data.Sampler):
        """Every so many of the images, in an order that all processes know."""

        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            chance = torch.Generator().manual_seed(args.seed + 7 * self.epoch)
            every = torch.randperm(len(train_set), generator=chance).tolist()
            return iter(every[procs.rank : len(self) * procs.world_size : procs.world_size])

        def __len__(self):
            return len(train_set) // procs.world_size

    sampler = Part()
# <<< ddp.sampler
# >>> ddp.validation
if procs.world_size > 1:
    parts = [torch.empty_like(sums) for _ in range(procs.world_size)]
    dist.all_gather(parts, sums)
    sums = torch.stack(parts).sum(0)
# <<< ddp.validation
