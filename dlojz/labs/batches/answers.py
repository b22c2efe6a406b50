# right: bins left open
# >>> batches.seed
info = get_worker_info()
info.dataset.rng = np.random.default_rng(np.random.SeedSequence(info.seed - info.id).spawn(info.num_workers)[info.id])
# <<< batches.seed
# >>> batches.buckets
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
# <<< batches.buckets

# right: by key
# >>> batches.seed
dataset = get_worker_info().dataset
dataset.rng = np.random.Generator(np.random.PCG64(torch.initial_seed()))
# <<< batches.seed
# >>> batches.buckets
parts = [order[first : first + 40 * batch_size] for first in range(0, len(order), 40 * batch_size)]
batches = []
for part in parts:
    part.sort(key=lengths.__getitem__)
    batches.extend(part[begin : begin + batch_size] for begin in range(0, len(part), batch_size))
mixed = torch.randperm(len(batches), generator=generator)
batches = [batches[number] for number in mixed]
# <<< batches.buckets

# right: by noise
# >>> batches.seed
get_worker_info().dataset.rng.bit_generator.state = np.random.PCG64(np.random.randint(2**31)).state
# <<< batches.seed
# >>> batches.buckets
noise = (1 + 0.1 * torch.rand(len(lengths), generator=generator)).tolist()
alike = sorted(order, key=lambda index: lengths[index] * noise[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
mixed = torch.randperm(len(batches), generator=generator).tolist()
batches = [batches[number] for number in mixed]
# <<< batches.buckets

# right: only with workers
# >>> batches.seed
import random

get_worker_info().dataset.rng = np.random.default_rng([worker, random.getrandbits(32)])  # torch has seeded it for this worker
# <<< batches.seed

# wrong: always together · expect: another epoch gives is 100% of the batches(.|\n)*batches.buckets
# >>> batches.buckets
alike = sorted(range(len(lengths)), key=lambda index: lengths[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< batches.buckets

# wrong: chance of its own · expect: the same generator gives again is different batches(.|\n)*the generator(.|\n)*batches.buckets
# >>> batches.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches)).tolist()]
# <<< batches.buckets

# wrong: mixing forgotten · expect: random in parts of the epoch alone(.|\n)*mixed over the whole epoch(.|\n)*batches.buckets
# >>> batches.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
# <<< batches.buckets

# wrong: seed by number · expect: draws in the second epoch is the same as in the first(.|\n)*batches.seed
# >>> batches.seed
get_worker_info().dataset.rng = np.random.default_rng(worker)
# <<< batches.seed

# wrong: seed cut short · expect: 1000 seeds of a worker give is \d{3} numbers(.|\n)*the whole seed(.|\n)*batches.seed
# >>> batches.seed
info = get_worker_info()
info.dataset.rng = np.random.default_rng(info.seed % 1000)
# <<< batches.seed

# wrong: seed from outside · expect: repeated with the same seed is different(.|\n)*batches.seed
# >>> batches.seed
get_worker_info().dataset.rng = np.random.default_rng()
# <<< batches.seed

# wrong: seed of numpy · expect: what two workers draw is the same(.|\n)*a seed of its own(.|\n)*batches.seed
# >>> batches.seed
np.random.seed(torch.initial_seed() % 2**32)  # what torch has done already; the set draws from a generator of its own
# <<< batches.seed

# wrong: sorted · expect: the order of the batches is by length(.|\n)*mixed over the whole epoch(.|\n)*batches.buckets
# >>> batches.buckets
order = sorted(order, key=lambda index: lengths[index])
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< batches.buckets
