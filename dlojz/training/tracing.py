"""``python -m dlojz.training.tracing SCRIPT ARGS``: the script as it is, with a profiler around some of its updates.

``dlojz trace`` starts it. An update is a call of the ``step`` of the optimizer that stepped first, whoever calls it: there a
step of the trace ends. It traces ``--updates`` of them after the first ``--skip``, the last three of which are warm-up. The trace
goes to the folder of the job, else to ``runs/trace-SCRIPT-NNN``. A script that is alone ends with it, at once, and nothing of it
runs any more; one of several processes runs to its end, since the others wait for it.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from ..system.errors import UsageError
from . import distributed, failures, records

NAME = "trace.json.gz"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="dlojz trace", allow_abbrev=False)
    found.add_argument("--updates", type=int, default=5, help="how many updates are traced (default: 5)")
    found.add_argument("--skip", type=int, default=8, help="how many come before them (default: 8)")
    found.add_argument("--folder", help="where the trace goes")
    found.add_argument("command", nargs=argparse.REMAINDER)
    return found


class Tracer:
    """Steps a profiler after each update of the first optimizer, and ends the process when the trace is written."""

    def __init__(self, profiler, updates: int, path: Path, ends: bool):
        self.profiler, self.left, self.path, self.ends = profiler, updates, path, ends
        self.first = None

    def install(self) -> None:
        """Optimizers ask for this function when they are made, and call what it gives in place of their class's ``step``: what
        comes after that is no part of the update, as a hook would be."""
        from torch.optim import Optimizer

        original = Optimizer.profile_hook_step

        def hooked(step):
            inner = original(step)

            def counted(optimizer, *args, **kwargs):
                result = inner(optimizer, *args, **kwargs)
                self.updated(optimizer)
                return result

            counted.__wrapped__ = step
            return counted

        Optimizer.profile_hook_step = staticmethod(hooked)

    def updated(self, optimizer) -> None:
        self.first = optimizer if self.first is None else self.first
        if optimizer is not self.first or not self.left:
            return
        self.left -= 1
        self.profiler.step()
        if not self.left:
            self.profiler.stop()
            if self.ends:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(0 if self.path.exists() else 1)


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    if not args.command or args.updates < 1 or args.skip < 0:
        raise UsageError("dlojz trace needs a script, --updates of 1 or more, and --skip of 0 or more")
    script, *arguments = args.command
    if not Path(script).is_file():
        raise UsageError(f"there is no script {script}")
    procs = distributed.processes()
    import torch

    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    if procs.is_main:
        path = records.run_folder(args.folder, f"trace-{Path(script).stem}") / NAME
        path.unlink(missing_ok=True)
        warmup = min(3, args.skip)
        schedule = torch.profiler.schedule(wait=args.skip - warmup, warmup=warmup, active=args.updates, repeat=1)
        profiler = torch.profiler.profile(schedule=schedule, record_shapes=True,
                                          on_trace_ready=failures.trace_writer(path, records.Writer()))
        tracer = Tracer(profiler, args.skip + args.updates, path, procs.world_size == 1)
        tracer.install()
        profiler.start()
    runpy.run_path(script, run_name="__main__")
    if procs.is_main and tracer.left:
        profiler.stop()
        done = args.skip + args.updates - tracer.left
        advice = "Let it train longer, or give smaller --skip and --updates" if done else "Does an argument make it train?"
        raise UsageError(f"{script} ended after {done} updates of an optimizer of torch in this process; the trace is of "
                         f"{args.updates} updates after the first {args.skip}. {advice}")


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        failures.say(f"dlojz: {error}", file=sys.stderr)
        sys.exit(2)
