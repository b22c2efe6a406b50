# >>> dataloader
loading = {name: value for name, value in vars(args).items() if value
           and name in ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")}
# <<< dataloader
# >>> dataloader.seed
info = get_worker_info()
info.dataset.rng = np.random.default_rng(np.random.SeedSequence(info.seed - info.id).spawn(info.num_workers)[info.id])
# <<< dataloader.seed
# >>> dataloader.buckets
bins, batches = {}, []
for index in order:
    own = bins.setdefault(lengths[index] // 5, [])
    own.append(index)
    if len(own) == batch_size:
        batches.append(tuple(own))
        own.clear()
left = [index for key in sorted(bins) for index in bins[key]]
batches += [left[begin : begin + batch_size] for begin in range(0, len(left), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator)]
# <<< dataloader.buckets
