"""What the check compares of loading.py: facts that all right answers share, of random numbers that they do not share."""

import random
from collections.abc import Iterable

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

SEEDS, SEQUENCES, BATCH = 1000, 1003, 7  # one batch is smaller


class Draws(Dataset):
    """An item says which worker made it, and what the set's generator has drawn there."""

    def __init__(self):
        self.rng, self.seeds = np.random.default_rng(0), 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return get_worker_info().id, int(self.rng.integers(2**62)), self.seeds


def seeds(loading):
    def many(worker):
        """How many different numbers SEEDS seeds of a loader give."""
        info, drawn = get_worker_info(), set()
        for seed in torch.randint(2**62, (SEEDS,), generator=torch.Generator().manual_seed(11)).tolist():
            object.__setattr__(info, "seed", seed)
            torch.default_generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            loading.seed_worker(worker)
            drawn.add(int(info.dataset.rng.integers(2**62)))
        info.dataset.seeds = len(drawn)

    def facts():
        epochs = []
        for _ in range(2):
            loader = DataLoader(Draws(), None, num_workers=2, worker_init_fn=loading.seed_worker,
                                generator=torch.Generator().manual_seed(7))
            epochs += [[{number for at, number, _ in items if at == worker} for worker in range(2)]
                       for items in (list(loader), list(loader))]
        first, second, again, _ = epochs
        different = next(iter(DataLoader(Draws(), None, num_workers=1, worker_init_fn=many)))[2]
        return {"what two workers draw": "the same" if first[0] & first[1] else "different",
                "what a worker draws in the second epoch": "the same as in the first" if first[0] & second[0] else "different",
                "what is drawn when the training is repeated with the same seed": "the same" if first == again else "different",
                f"what {SEEDS} seeds of a worker give": "different" if different > 0.99 * SEEDS else f"{different} numbers"}

    return facts


def epochs():
    yield "2 epochs with 2 workers", ()


def buckets(loading):
    def facts(lengths):
        epochs = [list(loading.buckets(lengths, BATCH, torch.Generator().manual_seed(seed))) for seed in (1, 1, 2)]
        number = next((each for each in epochs[0] if not isinstance(each, Iterable)), None)
        first, again, other = [[[int(index) for index in batch] for batch in epoch] if number is None else [] for epoch in epochs]
        indices = [index for batch in first for index in batch]
        known = [[index for index in batch if 0 <= index < SEQUENCES] for batch in first]
        widths = [max(lengths[index] for index in batch) for batch in known if batch]
        padding, chance = waste(lengths, known), waste(lengths, torch.arange(SEQUENCES).split(BATCH))
        by_length, alike = correlation(range(len(widths)), widths), correlation(widths[1:], widths[:-1])
        common = len(set(map(frozenset, first)) & set(map(frozenset, other))) / max(1, len(first))
        return {"each batch": "a list of indices" if number is None else f"a number ({type(number).__name__})",
                "the number of indices that belong to no sequence": sum(not 0 <= index < SEQUENCES for index in indices),
                f"the number of the {SEQUENCES} sequences that never come": len(set(range(SEQUENCES)) - set(indices)),
                "the number of sequences that come twice": len(indices) - len(set(indices)),
                "the largest batch": max(map(len, first), default=0),
                f"the number of batches smaller than {BATCH}": sum(len(batch) < BATCH for batch in first),
                "padding": "rare" if padding < chance / 2 else f"{padding:.0%} of the batches, and {chance:.0%} of random ones",
                "the order of the batches": "by length" if abs(by_length) > 0.5 else "random" if abs(alike) < 0.4 else
                "random in parts of the epoch alone: lengths of successive batches are similar",
                "what the same generator gives again": "the same batches" if first == again else "different batches",
                "what another epoch gives": "different batches" if common < 0.5 else f"{common:.0%} of the batches again"}

    return facts


def sequences():
    """Log-normal, as lengths of sentences are: half of them below 20 tokens, one in six above 36."""
    normal = torch.randn(SEQUENCES, generator=torch.Generator().manual_seed(0))
    yield f"{SEQUENCES} sequences in batches of {BATCH}", ((20 * (0.6 * normal).exp()).round().long().clamp(1, 200).tolist(),)


def waste(lengths, batches):
    filled = sum(max(lengths[index] for index in batch) * len(batch) for batch in batches if len(batch))
    return 1 - sum(lengths[index] for batch in batches for index in batch) / max(1, filled)


def correlation(some, others):
    """Of the ranks, as a few long sequences would hide what the many others do; 0 where one of them does not vary."""
    ranks = torch.stack([torch.unique(torch.tensor(values), return_inverse=True)[1].double() for values in (some, others)])
    return torch.corrcoef(ranks)[0, 1].nan_to_num().item() if ranks.shape[1] > 1 else 0.0
