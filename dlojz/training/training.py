"""What a training loop keeps books of: where it stands, when it saves, and when all of its processes stop.

The loop itself computes; one object does the rest::

    training = Training(procs, record, failures.catch_signals())      # first: from here on a signal is a stop request
    …
    chronometer = training.begin(args, run, device, epoch_lengths, parts, sums, notes)
    for epoch in range(training.epoch, len(epoch_lengths)):
        for … in loader:                                              # from batch training.position of the epoch on
            …
            settled = chronometer.next_iter(sums if reduced else None, epoch=epoch, lr=lr, images=images)
            training.step_done(settled, sums, reduced, updated)
            if training.should_save():
                training.save()
            if last or (training.stop and updated):
                break
        training.epoch_done(chronometer.validation())
        if training.stop:
            break
        training.validated(validate(…))
    training.end()
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from ..system import machine
from . import checkpoint, distributed, failures, options, records, summary
from .chronometer import Chronometer


class Training:
    """The books of one training, on each of its processes: see the module.

    ``stop_requests``: the list of `failures.catch_signals`. Processes agree on them: ``stop`` becomes True in the same step on
    all of them, although one alone may have received a signal. They ask each other in the steps with metrics, where they meet
    anyway, and read the answer when the Chronometer reads that step, so the host waits for no GPU. A process that is alone stops
    at once.

    ``step``, ``epoch``, ``position``: how many steps of the training, epochs, and steps of this epoch are done.
    """

    def __init__(self, procs: distributed.Processes, record: records.Writer, stop_requests: Sequence[int] = ()):
        self.procs, self.record, self.stop_requests = procs, record, stop_requests
        self.step = self.epoch = self.position = 0
        self.stop = False
        self._saved, self._updated = 0, True  # the step of the last checkpoint; whether no gradients wait for an update
        self._unfinished = None  # a checkpoint that is still being written
        self._group = None  # the processes that agree on stop requests
        self._profiled = False

    def say(self, *text) -> None:
        """Print a line, on rank 0."""
        if self.procs.is_main:
            failures.say(*text)

    def begin(self, args: argparse.Namespace, run: Path, device: torch.device, epoch_lengths: list[int], parts: dict,
              sums: torch.Tensor, notes: list[str], shares=None, **fields) -> Chronometer:
        """Load the checkpoint, if there is one and ``args.resume`` asks for it; write the record's ``start``; say what comes.

        ``run``: the folder of the run. ``epoch_lengths``: the number of steps of each epoch. ``parts``: what has a
        ``state_dict``, by name, for checkpoints. ``shares``: that of which each process saves its part: see `checkpoint`.
        ``sums``: float32 (3,) on the device, loss x images, correct answers and images since the last metrics; (2,) where nobody
        counts correct answers. ``fields``: more for the ``start`` event, such as its ``unit``. Raises UsageError where the
        checkpoint is damaged or was saved with other settings. Ends the process with exit code 0 where nothing is left to do.
        """
        self.args, self.run, self.device, self.epoch_lengths = args, run, device, epoch_lengths
        self.parts, self.shares, self.sums, self._profiled = parts, shares, sums, args.profile
        total_steps = sum(epoch_lengths)
        records.tell("arguments", args=args)
        self._fixed, path = options.fixed(args, self.procs, total_steps), run / "checkpoint.pt"
        if failures.to_resume(path, args.resume, self.procs.is_main):
            place = checkpoint.load(path, parts, sums, self._fixed, self.procs.rank, shares)
            self.step, self.epoch, self.position = place["step"], place["epoch"], place["position"]
            if self.step and checkpoint.nothing_left(path, self.step, total_steps):
                self.say(f"all {total_steps} steps are done already: give more --epochs or --test-steps to continue")
                sys.exit(0)
        elif args.resume:
            notes.append("--resume has no effect: there is no checkpoint in the run's folder yet")
        if args.amp == "fp16":  # its scaler may skip the first update; the schedule knows of it once the lab is written
            warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler\.step\(\)` before")
        self.chronometer = Chronometer(self.record, device, total_steps=total_steps, first_step=self.step,
                                       phases=args.chronometer, ranges=args.profile, stop_requests=self._ask)
        self.record.write("start", flush=True, **machine.describe(device), **options.describe(args, self.procs), notes=notes,
                          resumed_at=self.step, **fields, epochs=len(epoch_lengths), total_steps=total_steps,
                          warmup_steps=self.chronometer.warmup_steps)
        planned = f"steps {self.step + 1} to {total_steps}" if self.step < total_steps else "the last validation"
        self.say(f"{options.title(args, self.procs)} on {device.type}, {planned}", *(f"\nnote: {note}" for note in notes))
        self.watch(total_steps, fields.get("unit", "images"))
        return self.chronometer

    def watch(self, total_steps: int, unit: str = "images") -> None:
        """The loop begins: from here on processes notice when one of them dies. All call, after `init_process_group`."""
        self._saved = self.step
        self._watch = failures.Watch(self.say, total_steps, unit)
        if self.procs.world_size > 1 and dist.is_initialized():
            # With gloo a group of its own: the collectives of a loop that is wrong may be in another order on each rank. With
            # NCCL that would take memory, and two groups may not be used at a time.
            self._group = dist.new_group() if dist.get_backend() == "gloo" else dist.group.WORLD

    def swept(self, found: list[tuple[float, float]]) -> None:
        """A sweep of learning rates, (rate, loss), is over: it goes into the record, for `views.lr_finder`. None is no sweep."""
        if found:
            rates, losses = map(list, zip(*found))
            self.record.write("sweep", rates=rates, losses=losses)

    def step_done(self, settled: Sequence[dict] = (), sums: torch.Tensor | None = None, reduced: bool = False,
                  updated: bool = True) -> None:
        """A step is over. ``settled``: what `Chronometer.next_iter` has returned. ``sums``: those of `begin`, as they are now.
        They become 0 where they are ``reduced``: the record has them. ``updated``: whether the gradients of all steps so far are
        in the weights, since a checkpoint holds none. Raises StopTraining where the loss stays NaN or infinite."""
        self.step, self.position = self.step + 1, self.position + 1
        self.sums, self._updated = sums, updated
        self.stop = self._watch(settled) or self.stop or (self.procs.world_size == 1 and bool(self.stop_requests))
        if reduced:
            sums.zero_()
        if self._profiled:
            self.chronometer.start()  # the trace may just have been written: that is no part of a step

    def should_save(self) -> bool:
        """Whether it is time for a checkpoint: after ``args.checkpoint_every`` steps, at the end of an epoch, or to stop."""
        if self._unfinished and self._unfinished.shares.done():
            self._finish()
        every, last = self.args.checkpoint_every, self.position == self.epoch_lengths[self.epoch]
        return self._updated and (self.stop or bool(every and (last or self.step - self._saved >= every)))

    def save(self) -> None:
        """Write a checkpoint, once all steps that it holds are in the record. All processes call. It is no part of a step."""
        self.stop = self._watch(self.chronometer.pause()) or self.stop
        self._save()
        self.chronometer.start()

    def epoch_done(self, settled: Sequence[dict]) -> None:
        """The last step of an epoch, or before a stop, is over. ``settled``: what `Chronometer.validation` has returned. On a GPU
        a stop request may be read there first: then a checkpoint is saved."""
        self.stop = self._watch(settled) or self.stop
        if self.stop and self._saved < self.step:
            self._save()

    def validated(self, found: dict, source=None) -> None:
        """An epoch and its validation are over. ``found``: ``loss`` and ``images`` of all processes, and their ``accuracy``, or
        ``bits`` per token. ``source``: where the images are. Raises NothingToValidate where none could be read, and StopTraining
        where the loss is NaN or infinite to the end."""
        self._watch.validated(found, source)
        self.record.write("validation", step=self.step, epoch=self.epoch, **found, seconds=self.chronometer.stop())
        right = f"accuracy {found['accuracy']:.1%}" if "accuracy" in found else f"{found['bits']:.3f} bits per token"
        self.say(f"validation after step {self.step}: loss {found['loss']:.4f}, {right} of {found['images']} {self._watch.unit}")
        self.epoch, self.position = self.epoch + 1, 0

    def end(self, **fields) -> None:
        """Write the record's ``end`` with these ``fields``, say the summary, and end the process: exit code 0, or
        `failures.RESUME` after a stop request. To return would wait for loader workers that hang."""
        self._finish()
        self.record.write("end", flush=True, status="stopped" if self.stop else "completed", steps=self.step,
                          **machine.peak_memory(self.device), **self.chronometer.energy(self.procs.world_size),
                          trace=(self.run / "trace.json.gz").exists(), **fields)
        self.say(summary.text(records.read(self.run)))
        if dist.is_initialized():
            dist.destroy_process_group()
        sys.exit(failures.RESUME if self.stop else 0)

    def _finish(self) -> None:
        if self._unfinished:
            self._unfinished.finish()
        self._unfinished = None

    def _save(self) -> None:
        self._finish()
        place = {"step": self.step, "epoch": self.epoch, "position": self.position, "same": self._fixed}
        self._unfinished = checkpoint.save(self.run / "checkpoint.pt", self.parts, self.sums, place, self.procs, self.record,
                                           self.shares)
        self._saved = self.step

    def _ask(self) -> torch.Tensor:
        """(1,), above 0 where any process has a stop request; with NCCL once the stream has come so far. All call, in the same
        step."""
        on_device = self._group is not None and self._group is dist.group.WORLD
        asked = torch.full((1,), float(bool(self.stop_requests)), device=self.device if on_device else "cpu")
        if self._group is not None:
            how = dist.AllreduceOptions()
            how.reduceOp = dist.ReduceOp.MAX
            work = self._group.allreduce([asked], how)  # and not dist.all_reduce, which is the loop's
            if work is not None:
                work.wait()  # with NCCL the stream waits, and not the host
        return asked
