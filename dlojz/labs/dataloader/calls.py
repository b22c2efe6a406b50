"""What the check does with the trainee's loading.py."""

import random
from collections.abc import Iterable

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import worker as workers

WORKERS = 2
SEEDS = 3000
SEQUENCES, BATCH = 1003, 7  # the last batch of each part is a small one


class Draws(Dataset):
    """Each item is what the set's generator draws when it is asked for, in the worker that draws it."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.utils.data.get_worker_info().id, int(self.rng.integers(2**62))


def seed(module, note):
    """Two epochs, and the same again: what each worker draws."""
    for attempt in range(2):
        loader = DataLoader(Draws(), batch_size=None, num_workers=WORKERS, worker_init_fn=module.seed_worker,
                            generator=torch.Generator().manual_seed(7))
        for epoch in range(2):
            drawn = {worker: [] for worker in range(WORKERS)}
            for worker, number in loader:
                drawn[worker].append(number)
            note("drawn", attempt=attempt, epoch=epoch, workers=[drawn[worker] for worker in range(WORKERS)])
    many_seeds(module, note)


def many_seeds(module, note):
    """What the first item draws for many seeds of a loader, as if this process were a worker: torch seeds its generators so."""
    dataset, drawn, base = Draws(), set(), torch.Generator().manual_seed(11)
    for number in range(SEEDS):
        worker = number % WORKERS
        info = workers.WorkerInfo(id=worker, num_workers=WORKERS, dataset=dataset,
                                  seed=torch.randint(2**62, (), generator=base).item() + worker)
        torch.default_generator.manual_seed(info.seed)  # torch.manual_seed notes for each kind of device who has called it
        random.seed(info.seed)
        np.random.seed(info.seed % 2**32)
        workers._worker_info = info
        module.seed_worker(worker)
        drawn.add(int(dataset.rng.integers(2**62)))
    workers._worker_info = None
    note("seeds", count=SEEDS, different=len(drawn))


def buckets(module, note):
    """What kinds of batches come for one seed, for the same one again, and for another."""
    lengths = lengths_of_sentences()
    epochs = []
    for seed_ in (1, 1, 2):
        made = list(module.buckets(lengths, BATCH, torch.Generator().manual_seed(seed_)))
        if numbers := [each for each in made if not isinstance(each, Iterable)]:
            note("no_batches", kind=type(numbers[0]).__name__)
            return
        batches = [[int(index) for index in batch] for batch in made]
        indices = sorted(index for batch in batches for index in batch)
        widths = [max((lengths[index] for index in batch if 0 <= index < SEQUENCES), default=0) for batch in batches]
        filled = sum(width * len(batch) for width, batch in zip(widths, batches))
        note("batches", count=len(batches), largest=max(map(len, batches), default=0),
             small=sum(len(batch) < BATCH for batch in batches), missing=len(set(range(SEQUENCES)) - set(indices)),
             doubled=len(indices) - len(set(indices)), foreign=sum(not 0 <= index < SEQUENCES for index in indices),
             waste=1 - sum(lengths[index] for index in indices if 0 <= index < SEQUENCES) / max(1, filled), trend=trend(widths),
             alike=correlation(widths[1:], widths[:-1]))
        epochs.append(batches)
    first, again, other = epochs
    sets = [{frozenset(batch) for batch in batches} for batches in (first, other)]
    note("epochs", repeated=first == again, common=len(sets[0] & sets[1]) / max(1, len(sets[0])))
    by_chance = torch.randperm(SEQUENCES, generator=torch.Generator().manual_seed(3)).split(BATCH)
    width = sum(max(lengths[index] for index in batch) * len(batch) for batch in by_chance)
    note("by_chance", waste=1 - sum(lengths) / width)


def lengths_of_sentences() -> list[int]:
    """Log-normal, as lengths of sentences are: half of them below 20 tokens, one in six above 36."""
    normal = torch.randn(SEQUENCES, generator=torch.Generator().manual_seed(0))
    return (20 * (0.6 * normal).exp()).round().long().clamp(1, 200).tolist()


def trend(widths) -> float:
    """The correlation of the width of a batch with its place in the epoch: 1 where they come in order."""
    return correlation(list(range(len(widths))), widths)


def correlation(some, others) -> float:
    """Of the ranks, as a few long sequences would hide what the many others do; 0 where one of them does not vary."""
    ranks = [torch.unique(torch.tensor(values), return_inverse=True)[1] for values in (some, others)]
    found = torch.corrcoef(torch.stack(ranks).double())[0, 1].item() if len(some) > 1 else 0.0
    return found if found == found else 0.0
