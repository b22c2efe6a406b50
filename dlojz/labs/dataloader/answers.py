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

# wrong: a rest in each part · expect: batches are smaller than 7(.|\n)*one at most
# >>> dataloader.buckets
order = torch.randperm(len(lengths), generator=generator).tolist()
batches = []
for begin in range(0, len(order), 1000):
    part = sorted(order[begin : begin + 1000], key=lambda index: lengths[index])
    batches += [part[at : at + batch_size] for at in range(0, len(part), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets

# wrong: always together · expect: of its batches in common
# >>> dataloader.buckets
alike = sorted(range(len(lengths)), key=lambda index: lengths[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets

# wrong: chance of its own · expect: the same generator gives other batches
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches)).tolist()]
# <<< dataloader.buckets

# wrong: hard coded · expect: has num_workers=2\.\nExpected.*num_workers=0
# >>> dataloader
loading = {"num_workers": 2, "prefetch_factor": 3, "pin_memory": args.pin_memory, "persistent_workers": True}
# <<< dataloader

# wrong: kept without workers · expect: persistent_workers option needs num_workers > 0(.|\n)*the fence
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
           "persistent_workers": True}
# <<< dataloader

# wrong: mixed again · expect: of the batches is padding; batches by chance
# >>> dataloader.buckets
order = sorted(order, key=lambda index: lengths[index])
order = [order[number] for number in torch.randperm(len(order), generator=generator).tolist()]
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< dataloader.buckets

# wrong: mixed in halves · expect: come in the order of their length(.|\n)*dataloader.buckets
# >>> dataloader.buckets
alike = sorted(order, key=lambda index: lengths[index] + 6 * torch.rand((), generator=generator).item())
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
half = len(batches) // 2  # the short ones, and then the long ones
batches = [batches[first + number] for first, count in ((0, half), (half, len(batches) - half))
           for number in torch.randperm(count, generator=generator).tolist()]
# <<< dataloader.buckets

# wrong: mixing forgotten · expect: one after the other are alike in length(.|\n)*mixed over the whole epoch(.|\n)*dataloader.buckets
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
# <<< dataloader.buckets

# wrong: never cut · expect: `buckets` gives int values one by one(.|\n)*a list of batches(.|\n)*dataloader.buckets
# >>> dataloader.buckets
batches = sorted(order, key=lambda index: lengths[index])
# <<< dataloader.buckets

# wrong: no batches · expect: Seen: `buckets` of `loading.py` stops with TypeError.*Where to look: the fence dataloader.buckets, line
# >>> dataloader.buckets
batches = None
# <<< dataloader.buckets

# wrong: not kept · expect: persistent_workers=False\.\nExpected.*persistent_workers=True
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory}
# <<< dataloader

# wrong: pinned always · expect: loader of the training has pin_memory=True
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": True,
           "persistent_workers": args.persistent_workers}
# <<< dataloader

# wrong: pinned for kept · expect: --num-workers 1 --pin-memory`: the loader of the training has pin_memory=False
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.persistent_workers,
           "persistent_workers": args.pin_memory and args.num_workers > 0}
# <<< dataloader

# wrong: pinned with workers only · expect: --pin-memory`: the loader of the training has pin_memory=False(.|\n)*pin_memory=True
# >>> dataloader
loading = {}
if args.num_workers:
    loading = {"num_workers": args.num_workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers,
               "prefetch_factor": args.prefetch_factor}
# <<< dataloader

# wrong: prefetch ignored · expect: prefetch_factor=2\.\nExpected.*prefetch_factor=3
# >>> dataloader
loading = {"num_workers": args.num_workers, "pin_memory": args.pin_memory, "persistent_workers": args.persistent_workers}
# <<< dataloader

# wrong: prefetch without workers · expect: prefetch_factor option could only be specified(.|\n)*the fence
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor or 2, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers}
# <<< dataloader

# wrong: rest left out · expect: sequences of 1003 never come
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike) - batch_size + 1, batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets

# wrong: seed by number · expect: the same numbers in the first epoch and in the second
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng(worker)
# <<< dataloader.seed

# wrong: seed constant · expect: two workers draw the same numbers
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng(1)
# <<< dataloader.seed

# wrong: seed cut short · expect: 3000 seeds of a worker give only \d{3} different first numbers(.|\n)*the whole of it(.|\n)*dataloader.seed
# >>> dataloader.seed
info = get_worker_info()
info.dataset.rng = np.random.default_rng(info.seed % 1000)
# <<< dataloader.seed

# wrong: seed from outside · expect: begun anew with the same seed
# >>> dataloader.seed
get_worker_info().dataset.rng = np.random.default_rng()
# <<< dataloader.seed

# wrong: seed of nothing · expect: stops with AttributeError in a DataLoader worker: .*in line \d+ of loading.py.*the fence dataloader.seed
# >>> dataloader.seed
torch.utils.data.get_worker_info().dataset.generator.seed()
# <<< dataloader.seed

# wrong: seed of numpy · expect: two workers draw the same numbers
# >>> dataloader.seed
np.random.seed(torch.initial_seed() % 2**32)  # what torch has done already; the set draws from a generator of its own
# <<< dataloader.seed

# wrong: sorted · expect: come in the order of their length
# >>> dataloader.buckets
order = sorted(order, key=lambda index: lengths[index])
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< dataloader.buckets

# wrong: todo left · expect: `todo\("dataloader"\)` is still called.*says that dataloader is not written yet.*Where to look: line \d+ .*`todo\("dataloader"\)`
# >>> dataloader
loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
           "persistent_workers": args.persistent_workers}
if args.num_workers or args.pin_memory:
    todo("dataloader")
# <<< dataloader
