# right: bins left open
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

# right: by key
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

# right: by noise
# >>> dataloader.seed
get_worker_info().dataset.rng.bit_generator.state = np.random.PCG64(np.random.randint(2**31)).state
# <<< dataloader.seed
# >>> dataloader.buckets
noise = (1 + 0.1 * torch.rand(len(lengths), generator=generator)).tolist()
alike = sorted(order, key=lambda index: lengths[index] * noise[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
mixed = torch.randperm(len(batches), generator=generator).tolist()
batches = [batches[number] for number in mixed]
# <<< dataloader.buckets

# right: only with workers
# >>> dataloader
loading = dict(num_workers=args.num_workers, pin_memory=args.pin_memory and device.type == "cuda")
if args.num_workers:
    loading.update(persistent_workers=args.persistent_workers, prefetch_factor=args.prefetch_factor or 2)
# <<< dataloader
# >>> dataloader.seed
import random

get_worker_info().dataset.rng = np.random.default_rng([worker, random.getrandbits(32)])  # torch has seeded it for this worker
# <<< dataloader.seed

# wrong: always together · expect: another epoch gives is 100% of the batches(.|\n)*dataloader.buckets
# >>> dataloader.buckets
alike = sorted(range(len(lengths)), key=lambda index: lengths[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets

# wrong: chance of its own · expect: the same generator gives again is different batches(.|\n)*the generator(.|\n)*dataloader.buckets
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches)).tolist()]
# <<< dataloader.buckets

# wrong: mixing forgotten · expect: random in parts of the epoch alone(.|\n)*mixed over the whole epoch(.|\n)*dataloader.buckets
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
# <<< dataloader.buckets

# wrong: not kept · expect: persistent_workers=False\.\nExpected.*persistent_workers=True(.|\n)*the fence dataloader,
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory}
# <<< dataloader

# wrong: pinned with workers only · expect: --pin-memory`.*the loader of the training has pin_memory=False(.|\n)*pin_memory=True(.|\n)*the fence dataloader,
# >>> dataloader
loading = {}
if args.num_workers:
    loading = {"num_workers": args.num_workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers,
               "prefetch_factor": args.prefetch_factor}
# <<< dataloader

# wrong: seed by number · expect: draws in the second epoch is the same as in the first(.|\n)*dataloader.seed
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng(worker)
# <<< dataloader.seed

# wrong: seed cut short · expect: 1000 seeds of a worker give is \d{3} numbers(.|\n)*the whole seed(.|\n)*dataloader.seed
# >>> dataloader.seed
info = get_worker_info()
info.dataset.rng = np.random.default_rng(info.seed % 1000)
# <<< dataloader.seed

# wrong: seed from outside · expect: repeated with the same seed is different(.|\n)*dataloader.seed
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng()
# <<< dataloader.seed

# wrong: seed of numpy · expect: what two workers draw is the same(.|\n)*a seed of its own(.|\n)*dataloader.seed
# >>> dataloader.seed
np.random.seed(torch.initial_seed() % 2**32)  # what torch has done already; the set draws from a generator of its own
# <<< dataloader.seed

# wrong: sorted · expect: the order of the batches is by length(.|\n)*mixed over the whole epoch(.|\n)*dataloader.buckets
# >>> dataloader.buckets
order = sorted(order, key=lambda index: lengths[index])
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< dataloader.buckets

# wrong: workers divided by processes · expect: with 2 processes.*has num_workers=0(.|\n)*num_workers=1(.|\n)*the fence dataloader,
# >>> dataloader
workers = args.num_workers // procs.world_size  # as the ImageNet example of PyTorch does
loading = {"num_workers": workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers and workers > 0,
           "prefetch_factor": args.prefetch_factor if workers else None}
# <<< dataloader

# wrong: prefetch without workers · expect: `train.py --device cuda`, .*has prefetch_factor=2\.\nExpected.*=None(.|\n)*the fence dataloader,
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor or 2, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers}
# <<< dataloader
