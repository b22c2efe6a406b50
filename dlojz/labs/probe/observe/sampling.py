"""Sampling: how the loaders were made, and which samples they ask for.

``loader``         a DataLoader was made, or refused by torch: number (from 0), dataset (kind), of (which one), size (samples in
                   it), batch_size, shuffle (as asked), drop_last, sampler (kind of the innermost one), samplers (kinds, from the
                   outside in), sampled_by (which ones), padded (how many samples a DistributedSampler gives twice, so that all
                   ranks have as many), num_workers, prefetch_factor, pin_memory, persistent_workers, in_order. Of one that was
                   refused only these five
``batch.indices``  a loader asks for a batch: loader (its number), epoch (how many passes over it were begun before), batch (its
                   number in this pass, from 0), indices (in the data set, those of a Subset in the whole; None: it has none)
``set_epoch``      a sampler was told the epoch: sampler (kind), of (which one), epoch

Each rank has facts of its own. Batches are noted when the loader asks its sampler for them; workers are asked ahead of time, so
go by ``epoch`` and ``batch``, not by ``step``.
"""

from __future__ import annotations

import functools
import inspect

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, Subset, dataloader
from torch.utils.data.distributed import DistributedSampler

COMPARED = {
    "loader": ("size", "batch_size", "drop_last", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers",
               "in_order"),
    "batch.indices": ("loader", "epoch", "batch", "indices"),
}


SETTINGS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "in_order")


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.loaders = 0
        self.told: set[type] = set()

    def install(self):
        DataLoader.__init__ = self.noting_made(DataLoader.__init__)
        iterator = dataloader._BaseDataLoaderIter
        iterator.__init__ = self.counting_passes(iterator.__init__)
        iterator._reset = self.counting_passes(iterator._reset)  # a pass of workers that stay
        iterator._next_index = self.noting_indices(iterator._next_index)
        self.hear(DistributedSampler)

    def noting_made(self, original):
        @functools.wraps(original)
        def made(loader, *args, **kwargs):
            try:
                original(loader, *args, **kwargs)
            except Exception:
                given = inspect.signature(original).bind_partial(loader, *args, **kwargs)
                given.apply_defaults()
                self.log.note("loader", number=self.loaders, **{name: given.arguments.get(name) for name in SETTINGS})
                raise
            loader._number, self.loaders = self.loaders, self.loaders + 1
            loader._passes = 0
            batches = loader.batch_sampler
            samplers = chain(loader.sampler if batches is None else batches.sampler if type(batches) is BatchSampler else batches)
            for sampler in samplers:
                self.hear(type(sampler))
            names = [type(sampler).__name__ for sampler in samplers]
            shuffle = kwargs.get("shuffle", args[2] if len(args) > 2 else None)
            size = len(loader.dataset) if hasattr(type(loader.dataset), "__len__") else None
            self.log.note("loader", number=loader._number, dataset=type(loader.dataset).__name__,
                          of=self.log.which(loader.dataset), size=size, batch_size=getattr(batches, "batch_size", None),
                          shuffle=bool(shuffle), drop_last=getattr(batches, "drop_last", False), sampler=names[-1],
                          samplers=names, sampled_by=list(map(self.log.which, samplers)),
                          padded=sum(map(padding, samplers)), **{name: getattr(loader, name) for name in SETTINGS})

        return made

    def counting_passes(self, original):
        @functools.wraps(original)
        def begun(iterator, loader, first_iter=None):
            if not first_iter:  # else it goes on with what __init__ has begun
                iterator._place = [loader, loader._passes, 0]
                loader._passes += 1
            original(iterator, loader, **({} if first_iter is None else {"first_iter": first_iter}))

        return begun

    def noting_indices(self, original):
        @functools.wraps(original)
        def asked(iterator):
            indices = original(iterator)
            loader, epoch, batch = iterator._place
            iterator._place[2] += 1
            several = [indices] if loader.batch_sampler is None else list(indices)
            found = None if isinstance(loader.dataset, IterableDataset) else whole(loader.dataset, several)
            self.log.note("batch.indices", loader=loader._number, epoch=epoch, batch=batch, indices=found)
            return indices

        return asked

    def hear(self, kind: type) -> None:
        """Note calls of this sampler's own ``set_epoch``, where it has one."""
        if kind in self.told or "set_epoch" not in vars(kind):
            return
        self.told.add(kind)
        original = kind.set_epoch

        @functools.wraps(original)
        def told(sampler, epoch):
            self.log.note("set_epoch", sampler=type(sampler).__name__, of=self.log.which(sampler), epoch=epoch)
            return original(sampler, epoch)

        kind.set_epoch = told


def chain(sampler) -> list:
    """A sampler and those that it takes its indices from, from the outside in."""
    found = []
    while sampler is not None and sampler not in found:
        found.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return found


def padding(sampler) -> int:
    """How many samples a sampler gives twice."""
    return max(0, sampler.total_size - len(sampler.dataset)) if isinstance(sampler, DistributedSampler) else 0


def whole(dataset, indices) -> list:
    """Indices in the data set that the subsets are parts of."""
    while isinstance(dataset, Subset):
        indices, dataset = [dataset.indices[index] for index in indices], dataset.dataset
    return [index if isinstance(index, (int, str)) else int(index) for index in indices]
