"""A record of a training that knows nothing of the kit: six lines in any loop, and the views show it (docs/own.md)::

    from dlojz import Recorder                           # 1

    run = Recorder(model, batch_size=64)                 # 2: before the loop, when the model is on its device
    for epoch in range(epochs):
        for images, labels in run.steps(loader):         # 3: in place of `in loader`
            …
            optimizer.step()
            run.step(loss)                               # 4: once per update, at its end
        run.validated(loss=…, accuracy=…, images=…)      # 5: numbers, if you validate
    run.end()                                            # 6

Callbacks that do the same for Lightning and for the Trainer of Hugging Face are in `callbacks`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..system import machine
from . import distributed, failures, records
from .chronometer import Chronometer


def _inner(model):
    """Without what wraps it: the same model in one process and in several."""
    while type(model).__name__ in ("DistributedDataParallel", "DataParallel", "OptimizedModule"):
        model = model._orig_mod if hasattr(model, "_orig_mod") else model.module
    return model


class Recorder:
    """Writes the record of one training, on rank 0; on other ranks only what stops them.

    ``model``: a ``torch.nn.Module``, on the device on which it is trained. ``batch_size``: items per process and update.
    ``total_steps``: updates of the whole training, for a bar of progress; None: not known. ``args``: what distinguishes this run
    from others, such as ``vars(args)``. ``unit``: what an item is, in the plural (``"tokens"``). ``phases=True``: you also mark
    where phases begin, with ``run.forward()``, ``run.backward()`` and ``run.update()``; without marks, steps are timed whole.
    ``folder``: of the record; left out, that of the job, else a new ``runs/SCRIPT-NNN``. ``start``: more for the record's start,
    such as ``epochs`` and ``steps_per_epoch``. Raises UsageError where nothing can be written to the folder.
    """

    def __init__(self, model, batch_size: int, total_steps: int | None = None, args: dict | None = None, unit: str = "images",
                 phases: bool = False, folder: Path | str | None = None, **start):
        procs = distributed.processes()
        self.batch_size, self.unit, self.world_size = batch_size, unit, procs.world_size
        self.device = next(model.parameters()).device
        self.record = records.Writer(errors_only=not procs.is_main)
        self.folder = self.record.open(records.run_folder(folder, Path(failures.script()).stem, procs.is_main))
        self.chronometer = Chronometer(self.record, self.device, total_steps=total_steps, phases=phases)
        self.forward, self.backward, self.update = (getattr(self.chronometer, mark) for mark in ("forward", "backward", "update"))
        given = {str(key): value for key, value in (args or {}).items()}
        self.record.write("start", flush=True, **{
            **machine.describe(self.device), "command": shlex.join(sys.argv), "args": given, "switches": given,
            "model": type(_inner(model)).__name__, "batch_size": batch_size, "world_size": self.world_size, "unit": unit,
            "global_batch": batch_size * self.world_size, "parameters": sum(p.numel() for p in model.parameters()),
            "total_steps": total_steps, "warmup_steps": self.chronometer.warmup_steps, "resumed_at": 0, **start})
        self._hook, sys.excepthook = sys.excepthook, self._failed

    def steps(self, loader: Iterable) -> Iterator:
        """The batches of ``loader``; the time that they are waited for is not that of the model."""
        self.chronometer.start()
        for batch in loader:
            self.chronometer.copy()
            yield batch

    def step(self, loss=None, correct=None, items: int | None = None, **fields) -> list[dict]:
        """An update is done. ``loss``: the mean over its items, as a tensor or a number; nothing waits for it. ``correct``: how
        many answers were right, a tensor. ``items``: of this process, where they are not ``batch_size``. ``fields``: more for
        the record: ``lr``, ``epoch``. Returns what `Chronometer.next_iter` returns."""
        items, sums = self.batch_size if items is None else items, None
        if loss is not None:
            import torch

            several = [loss * items, items] if correct is None else [loss * items, correct, items]
            sums = torch.stack([torch.as_tensor(value, device=self.device, dtype=torch.float32).detach() for value in several])
        return self.chronometer.next_iter(sums, images=items * self.world_size, **fields)

    def validated(self, **found) -> None:
        """A validation is over. ``found``: numbers, such as ``loss``, ``accuracy`` (0 to 1), ``images`` (how many), ``epoch``."""
        self.chronometer.pause()
        self.record.write("validation", flush=True, step=self.chronometer.step, **found)
        self.chronometer.start()

    def end(self, **fields) -> None:
        """The training is over. ``fields``: more for the record. Energy is left out of a record of several processes."""
        self.chronometer.validation()
        sys.excepthook = self._hook
        energy = self.chronometer.energy() if self.world_size == 1 else {}  # to ask the others takes all of them here
        self.record.write("end", flush=True, status="completed", steps=self.chronometer.step, **machine.peak_memory(self.device),
                          **energy, **fields)

    def _failed(self, kind, error, traceback) -> None:
        """What stops the script goes into the record before Python reports it."""
        said = failures.explain(error, failures._device_memory())
        self.record.write("error", flush=True, rank=distributed.processes().rank, **said)
        self.record.write("end", flush=True, status="failed", steps=self.chronometer.step)
        self._hook(kind, error, traceback)
