"""Times a training loop: right on a GPU, where work is only queued when a line returns, and almost free.

The loop says where it is, with marks and not with nested blocks, so that it stays readable::

    chronometer.start()                      # before the loop: now we wait for the first batch
    for images, labels in loader:
        chronometer.copy()                   # the batch is here: copy it to the device
        images, labels = images.to(device), labels.to(device)
        chronometer.forward()
        loss = criterion(model(images), labels)
        chronometer.backward()
        loss.backward()
        chronometer.update()
        optimizer.step()
        chronometer.next_iter(sums)          # this step is done: now we wait for the next batch
    chronometer.validation()                 # after the loop
    …
    seconds = chronometer.stop()

A mark ends the phase before it, so the phases of a step (``idle``, ``copy``, ``forward``, ``backward``, ``update``) add up to the
step. On CUDA a mark records an event on the stream; the events are read some steps later, when the GPU has long passed them,
so the loop is never stopped to be measured. ``idle`` is then the time in which the *device* had nothing to do because the batch
was not there, and ``loading`` the time in which the *process* waited for its loader: a loader that is slow but hidden behind the
GPU's work shows in the second only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from ..system.machine import gpu_uuid, memory_with_workers
from . import distributed, records
from .energy import EnergyMeter, power

WARMUP = 10  # steps left out of averages, at most a fifth of the run: caches, cudnn's search, compilation, the loader's start
LAG = 8  # steps after which a step is read on a GPU; by then it is over, since the launch queue is shorter than that


class HostClock:
    """Marks for a device that works while the host waits (CPU): the time itself."""

    lag = 0

    def __init__(self, now=time.perf_counter):
        self.mark = now

    def settle(self, mark) -> None:
        """Wait until the device has passed the mark."""

    def between(self, first, last) -> float:
        """Seconds from one mark to a later one."""
        return last - first

    def fetch(self, sums):
        """Begin to copy a small tensor to the host; read it once a later mark is settled."""
        return sums.clone()

    def give_back(self, marks) -> None:
        """These marks will not be asked for again."""


class CudaClock:
    """Marks for a CUDA device: events on the current stream, used again once they were read."""

    lag = LAG

    def __init__(self):
        import torch

        self._torch = torch
        self._free: list = []

    def mark(self):
        event = self._free.pop() if self._free else self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self, mark) -> None:
        mark.synchronize()

    def between(self, first, last) -> float:
        return first.elapsed_time(last) / 1000

    def fetch(self, sums):
        # Into pinned memory, or the copy would wait for the device.
        return self._torch.empty(sums.shape, dtype=sums.dtype, pin_memory=True).copy_(sums, non_blocking=True)

    def give_back(self, marks) -> None:
        self._free.extend(marks)


@dataclass
class _Step:
    fields: dict
    marks: list  # (phase that begins, mark), the last one closes the step
    sums: object = None
    stop: object = None  # above 0 where a process has a stop request
    settled_by: object = None  # the mark after which marks and sums can be read
    loading: float = 0.0


class Chronometer:
    """See the module. What it measured goes to ``record`` as ``step`` events, and ``next_iter`` returns them.

    ``record``: a ``records.Writer``. ``device``: a ``torch.device``, or ``clock``: an object like ``HostClock``.
    ``total_steps``: how many steps the run plans, from which the number of warm-up steps follows. ``phases=False`` times whole
    steps only. ``ranges=True`` names the phases in a ``torch.profiler`` trace. ``sums`` given to ``next_iter`` is a tensor
    ``(3,)`` on the device: loss summed over images, correct answers, images; or ``(2,)``, without correct answers.
    ``stop_requests`` is called in the steps that have sums, and returns a tensor ``(1,)``; where that is above 0 the step is
    returned, and recorded, with ``stop``. ``memory`` is called once, in the last step of the warm-up, and returns fields that
    say what process and loader hold.
    """

    def __init__(self, record, device=None, clock=None, total_steps=None, first_step=0, phases=True, ranges=False,
                 meter=None, host=time.perf_counter, memory=memory_with_workers, stop_requests=None):
        self.record = record
        self.clock = clock or (CudaClock() if device is not None and device.type == "cuda" else HostClock())
        self.host = host
        self.phases = phases
        self.step = first_step
        self.warmup_steps = min(WARMUP, max(0, total_steps - first_step) // 5) if total_steps else WARMUP
        self._warm_at = first_step + self.warmup_steps
        self._meter = meter or EnergyMeter(gpu_uuid(device) if device is not None else None)
        self._energy_from = self._energy_to = self._asking = None
        self._timed_seconds, self._timed_images = 0.0, 0
        self._stop_requests = stop_requests
        self._memory, self._memory_at, self._memory_found = memory, max(first_step + 1, self._warm_at), {}
        self._ranges = ranges
        self._range = None
        self._pending: deque[_Step] = deque()
        self._marks: list = []
        self._since: float | None = None
        self._waiting_since: float | None = None
        self._loading = 0.0

    def start(self) -> None:
        """The loop begins: from here on we wait for the first batch."""
        self._since = self._waiting_since = self.host()
        self._loading = 0.0
        self._marks = [("idle", self.clock.mark())]
        self._name("idle")

    def copy(self) -> None:
        """The batch is here: its way to the device begins."""
        if self._waiting_since is not None:
            self._loading += self.host() - self._waiting_since
            self._waiting_since = None
        self._mark("copy")
        if self.step + 1 == self._memory_at:  # in a step of the warm-up: it takes some milliseconds for each process
            self._memory_found = self._memory()

    def forward(self) -> None:
        """Forward pass and loss begin."""
        self._mark("forward")

    def backward(self) -> None:
        """The backward pass begins."""
        self._mark("backward")

    def update(self) -> None:
        """The optimizer's step begins."""
        self._mark("update")

    def next_iter(self, sums=None, **fields) -> list[dict]:
        """The step is done; ``fields`` (epoch, lr, images, …) go into its event. Returns the steps that are settled by now.

        On a GPU those are the steps up to LAG before this one. Which step is settled when does not depend on timing, so all
        processes of a distributed run see the same ones here and may decide upon them.
        """
        self.step += 1
        records.tell("step", sums=sums, **fields)
        stop = self._stop_requests() if self._stop_requests and sums is not None else None
        end = self.clock.mark()
        self._marks.append((None, end))
        step = _Step({"step": self.step, **fields, **self._memory_found}, self._marks, settled_by=end, loading=self._loading)
        self._memory_found = {}
        if sums is not None:
            step.sums = self.clock.fetch(sums)
            step.stop = None if stop is None else self.clock.fetch(stop)
            step.settled_by = self.clock.mark()  # a mark that comes after the copies
        self._pending.append(step)
        self._marks = [("idle", end)]
        self._loading = 0.0
        self._name("idle")
        settled = self._settle(self.clock.lag)
        self._waiting_since = self.host()  # after the settling: a wait for the device is no wait for the loader
        return settled

    def pause(self) -> list[dict]:
        """The loop stands still, for a checkpoint, until ``start``. Returns the steps that were not settled yet: now all are."""
        settled = self._settle(0)
        self._name("checkpoint")
        return settled

    def validation(self) -> list[dict]:
        """The loop is over and validation begins. Returns the last steps of the loop, all settled."""
        settled = self._settle(0)
        if self._asking is not None:
            self._asking.join()
        self._energy_to = self._meter.read()
        self._name(None)
        self._marks = []
        self._waiting_since = None
        self._since = self.host()
        return settled

    def stop(self) -> float:
        """Waits for the device. Returns the seconds since ``start`` or ``validation``."""
        self._settle(0)
        self._name(None)
        self.clock.settle(self.clock.mark())
        return self.host() - self._since

    def energy(self, world_size: int = 1) -> dict:
        """``power`` in watts over the timed steps and ``joules_per_image``, of the GPUs of all processes; None: not measured.

        With a process group every process has to ask. Processes without one know nothing of each other's.
        """
        watts = power(self._energy_from, self._energy_to)
        if world_size > 1:
            everyone = distributed.from_everyone(watts)
            watts = None if None in everyone or len(everyone) < world_size else sum(everyone)
        if watts is None or not self._timed_images:
            return {"power": None, "joules_per_image": None}
        return {"power": round(watts, 1), "joules_per_image": float(f"{watts * self._timed_seconds / self._timed_images:.4g}")}

    def _read_energy(self) -> None:
        self._energy_from = self._meter.read()

    def _mark(self, phase: str) -> None:
        if self.phases:
            self._marks.append((phase, self.clock.mark()))
            self._name(phase)

    def _name(self, phase: str | None) -> None:
        if not self._ranges:
            return
        from torch.profiler import record_function

        if self._range is not None:
            self._range.__exit__(None, None, None)
        self._range = record_function(f"dlojz.{phase}") if phase else None
        if self._range is not None:
            self._range.__enter__()

    def _settle(self, keep: int) -> list[dict]:
        settled = []
        while len(self._pending) > keep:
            settled.append(self._read(self._pending.popleft()))
        return settled

    def _read(self, step: _Step) -> dict:
        marks = [mark for _, mark in step.marks]
        self.clock.settle(step.settled_by)
        event = step.fields
        seconds = {"seconds": self.clock.between(marks[0], marks[-1]), "loading": step.loading}
        if self.phases:
            for (phase, first), (_, last) in zip(step.marks, step.marks[1:]):
                seconds[phase] = seconds.get(phase, 0.0) + self.clock.between(first, last)
        event.update((name, round(value, 7)) for name, value in seconds.items())
        if step.sums is not None:
            loss, *correct, images = step.sums.tolist()
            event["loss"] = loss / images if images else None
            if correct:
                event["accuracy"] = correct[0] / images if images else None
            if step.stop is not None and step.stop.item():
                event["stop"] = True
        if event["step"] <= self._warm_at:
            event["warmup"] = True
            if event["step"] == self._warm_at:
                # In a thread: the driver may take milliseconds to answer, and the steps from here on count.
                self._asking = threading.Thread(target=self._read_energy, name="energy", daemon=True)
                self._asking.start()
        else:
            self._timed_seconds += event["seconds"]
            self._timed_images += event.get("images", 0)
        # The last mark also opens the next step: it is given back when that one is read.
        self.clock.give_back(marks[:-1] + ([step.settled_by] if step.settled_by is not marks[-1] else []))
        self.record.write("step", **event)
        return event
