"""What a loader needs besides pictures: chance that differs in each worker, and batches of sequences.

    DataLoader(…, worker_init_fn=seed_worker)                          # before anything is drawn
    DataLoader(…, batch_sampler=buckets(lengths, 16, generator), collate_fn=pad)
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import get_worker_info


def seed_worker(worker: int) -> None:
    """For ``DataLoader(worker_init_fn=…)``: the data set of each worker draws its own numbers, others in each epoch, and the same
    ones when a training is repeated with the same seed.

    The data set has a numpy generator ``rng``. A worker is a copy of the training process, this generator included.
    """
    # >>> batches.seed: a generator of its own for each worker
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(info.seed)  # the loader's seed of this epoch, plus the worker's number
    # <<< batches.seed


def pad(sequences: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """For ``DataLoader(collate_fn=…)``: int64 tensors (n,) of any lengths -> tokens (B, longest), 0 where there are none, and a
    mask (B, longest) that is True where there are."""
    tokens = torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    return tokens, torch.arange(tokens.shape[1]) < lengths[:, None]


def buckets(lengths: Sequence[int], batch_size: int, generator: torch.Generator) -> list[list[int]]:
    """The batches of an epoch, as indices of sequences: alike in length, so that little is padded.

    Each sequence comes once. All batches have ``batch_size`` sequences, one of them may have fewer. What stands together, and
    which batch comes when, is left to the generator: another epoch, other batches.
    """
    order = torch.randperm(len(lengths), generator=generator).tolist()
    # >>> batches.buckets: sort a part of the set at a time, cut it into batches, mix those
    part, batches = 50 * batch_size, []
    for first in range(0, len(order), part):
        alike = sorted(order[first : first + part], key=lambda index: lengths[index])
        batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
    batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
    # <<< batches.buckets
    return batches
