"""What the scripts of the hunt share, so that each of them shows its own training and nothing else.

A script gives its training to `main`, which runs it with a `Run`: switches, device, record, chronometer, and with --profile a
trace of a few steps in trace.json.gz, as train.py writes it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import torch

from dlojz.system import machine, sites
from dlojz.system.errors import UsageError
from dlojz.training import failures, records, summary
from dlojz.training.chronometer import Chronometer

# scale: batch size, steps
_SIZES = {"ci": (16, 6), "laptop": (128, 30), "gpu": (256, 40), "cluster": (256, 40)}


def arguments(doc: str, argv: list[str] | None = None) -> argparse.Namespace:
    """The switches of a script of the hunt; ``doc`` is its docstring. Exits with 2 where they are wrong."""
    batch_size, steps = _SIZES[sites.sizes().scale]
    parser = argparse.ArgumentParser(description=doc.split("\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("-b", "--batch-size", type=_positive, default=batch_size, help="items per step (%(default)s)")
    add("--steps", type=_positive, default=steps, help="how many (%(default)s)")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--seed", type=int, default=1)
    add("--profile", action="store_true", help="write a torch.profiler trace of a few steps")
    add("--run-dir", help="where the record and the trace go")
    args = parser.parse_args(argv)
    args.switches = {name: value for name, value in vars(args).items() if value != parser.get_default(name)}
    return args


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


class Run:
    """One training: ``args``, ``device``, and the marks of its steps, which the loop sets::

        for images, labels in run.steps(loader):     # over the loader again and again, until --steps are done
            images, labels = images.to(run.device), labels.to(run.device)
            run.forward()
            …
            run.backward()
            …
            run.update()
            …
            run.add(loss, correct, len(labels))      # tensors: what they hold is asked for when the step is over
    """

    def __init__(self, args: argparse.Namespace, record: records.Writer):
        if args.device == "cuda" and not torch.cuda.is_available():
            raise UsageError("--device cuda: there is no GPU here; leave it out, or take --device cpu")
        on_gpu = args.device != "cpu" and torch.cuda.is_available()
        self.args, self.record = args, record
        self.device = torch.device("cuda" if on_gpu else "cpu")
        self.folder = record.open(records.run_folder(args.run_dir, "hunt"))
        self.chronometer = Chronometer(record, self.device, total_steps=args.steps, ranges=args.profile)
        self.forward, self.backward, self.update = (getattr(self.chronometer, name) for name in ("forward", "backward", "update"))
        self.sums = torch.zeros(3, device=self.device)

    say = staticmethod(failures.say)

    def started(self, net: torch.nn.Module) -> None:
        """The model is there: the record begins."""
        args = dict(vars(self.args))
        self.record.write("start", flush=True, **machine.describe(self.device), command=shlex.join(sys.argv),
                          switches=args.pop("switches"), args=args, model=type(net).__name__, batch_size=args["batch_size"],
                          world_size=1, global_batch=args["batch_size"], parameters=sum(p.numel() for p in net.parameters()),
                          total_steps=args["steps"], warmup_steps=self.chronometer.warmup_steps, resumed_at=0)

    def steps(self, loader: Iterable) -> Iterator:
        """The batches of ``loader``, over and over, until --steps were done; between them a step is closed."""
        with self.profiler() as profiler:
            self.chronometer.start()
            for _, batch in zip(range(self.args.steps), self.batches(loader)):
                self.chronometer.copy()
                yield batch
                self.chronometer.next_iter(self.sums, images=self.args.batch_size)
                self.sums.zero_()
                if profiler is not None:
                    profiler.step()
                    self.chronometer.start()  # what writing a trace takes belongs to no step
            self.chronometer.validation()

    def batches(self, loader: Iterable) -> Iterator:
        while True:
            batch = None
            for batch in loader:
                yield batch
            if batch is None:
                raise UsageError(f"there are too few items for a batch of {self.args.batch_size}: take a smaller --batch-size")

    def add(self, loss: torch.Tensor, correct: torch.Tensor, count: int) -> None:
        """What a step found: its mean loss, how many were right, of how many. Nothing waits for it."""
        self.sums[0] += loss.detach() * count
        self.sums[1] += correct
        self.sums[2] += count

    def profiler(self):
        """With --profile a profiler of up to five steps, as in train.py; else a context that does nothing."""
        if not self.args.profile:
            return nullcontext()
        return failures.profiler(self.folder / "trace.json.gz", self.record, self.args.steps)

    def ended(self) -> None:
        traced = (self.folder / "trace.json.gz").exists()
        self.record.write("end", flush=True, status="completed", steps=self.args.steps, trace=traced,
                          **machine.peak_memory(self.device), **self.chronometer.energy())


def main(train: Callable[[Run], None], doc: str) -> None:
    """Run a script of the hunt. Ends the process with its exit code: 0, 2 for wrong usage, else 1."""
    with failures.reported() as (procs, record):
        if procs.world_size > 1:
            raise UsageError(f"{failures.script()} is for one process: start it without torchrun, submit it for one GPU at most")
        torch.set_num_threads(1)  # operations so small that several threads would mostly wait for each other
        run = Run(arguments(doc), record)
        train(run)
        run.ended()
        failures.say(summary.text(records.read(run.folder)))
