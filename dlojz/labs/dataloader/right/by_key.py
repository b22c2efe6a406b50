# >>> dataloader
names = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
loading = {name: getattr(args, name) for name in names}
# <<< dataloader
# >>> dataloader.seed
dataset = get_worker_info().dataset
dataset.rng = np.random.Generator(np.random.PCG64(torch.initial_seed()))
# <<< dataloader.seed
# >>> dataloader.buckets
parts = [order[first : first + 40 * batch_size] for first in range(0, len(order), 40 * batch_size)]
batches = []
for part in parts:
    part.sort(key=lengths.__getitem__)
    batches.extend(part[begin : begin + batch_size] for begin in range(0, len(part), batch_size))
mixed = torch.randperm(len(batches), generator=generator)
batches = [batches[number] for number in mixed]
# <<< dataloader.buckets
