"""``python -m dlojz.training.tracing SCRIPT ARGS``: the script as it is, with a profiler around some of its updates.

``dlojz trace`` starts it and shows the trace. An update is a call of the ``step`` of the optimizer that stepped first, whoever
calls it: there a step of the trace ends. It traces ``--updates`` of them after the first ``--skip``, the last three of which
are warm-up. The trace goes to the folder of the job, else to ``runs/trace-SCRIPT-NNN``. Then the script ends, at once, and
nothing of it runs any more. Of several processes rank 0 is traced, and all end after the same update.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import signal
import sys
import traceback
from datetime import timedelta
from pathlib import Path

from ..system.errors import UsageError
from . import distributed, failures, records

NAME = "trace.json.gz"
PATIENCE = 60.0  # seconds that ranks wait for the one that writes the trace


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="dlojz trace", allow_abbrev=False)
    found.add_argument("--updates", type=int, default=5, help="how many updates are traced (default: 5)")
    found.add_argument("--skip", type=int, default=8, help="how many come before them (default: 8)")
    found.add_argument("--folder", required=True, help="where the trace goes")
    found.add_argument("command", nargs=argparse.REMAINDER)
    return found


class Tracer:
    """Counts the updates of the first optimizer, and ends the process after the last one that is asked for. On rank 0 it steps a
    profiler after each, whose trace is then written; on other ranks there is none."""

    def __init__(self, updates: int, path: Path, profiler=None):
        self.left, self.path, self.profiler = updates, path, profiler
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
        if self.profiler is not None:
            self.profiler.step()
        if not self.left:
            if self.profiler is not None:
                self.profiler.stop()
            self.leave()

    def leave(self) -> None:
        """At once. What ranks have sent each other is there by then: they wait until the last one comes here."""
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            with contextlib.suppress(Exception):  # a rank that is gone already
                dist.barrier(async_op=True).wait(timedelta(seconds=PATIENCE))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(0 if self.profiler is None or self.path.exists() else 1)


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    if not args.command or args.updates < 1 or args.skip < 0:
        raise UsageError("dlojz trace needs a script, --updates of 1 or more, and --skip of 0 or more")
    script, *arguments = args.command
    if not Path(script).is_file():
        raise UsageError(f"there is no script {script}")
    procs = distributed.processes()
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends this process at once, without a traceback from torch's imports
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    import torch

    signal.signal(signal.SIGINT, heard)
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    path = Path(args.folder) / NAME
    profiler = None
    if procs.is_main:
        path.unlink(missing_ok=True)
        warmup = min(3, args.skip)
        schedule = torch.profiler.schedule(wait=args.skip - warmup, warmup=warmup, active=args.updates, repeat=1)
        profiler = torch.profiler.profile(schedule=schedule, record_shapes=True,
                                          on_trace_ready=failures.trace_writer(path, records.Writer()))
    tracer = Tracer(args.skip + args.updates, path, profiler)
    tracer.install()
    if profiler is not None:
        profiler.start()
    run(script, tracer, args)


def exit_code(stop: SystemExit) -> int:
    """The code with which a script ends. What is no number is said first, as Python does."""
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    failures.say(stop.code, file=sys.stderr)
    return 1


def run(script: str, tracer: Tracer, args) -> None:
    """The script, until `Tracer` ends it. Raises UsageError where it ends before."""
    how, failed, said = "ended", False, ""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        code = exit_code(stop)
        failed, how = code != 0, f"ended with code {code}" if code else how
    except Exception as error:
        failed, how, said = True, "failed", f": {type(error).__name__}"
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != script:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
    if tracer.profiler is not None:
        tracer.profiler.stop()
        tracer.path.unlink(missing_ok=True)  # of fewer updates
    elif not failed:
        sys.exit(2)  # rank 0 says it
    done = args.skip + args.updates - tracer.left
    advice = "Let it train longer, or give smaller --skip and --updates" if done else "Does an argument make it train?"
    if failed:
        advice = "Arguments of the script come after its name" if how == "ended with code 2" else "Run it alone until it works"
    raise UsageError(f"{script} {how} after {done} updates of an optimizer of torch in this process{said}. The trace is of "
                     f"{args.updates} updates after the first {args.skip}. {advice}")


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        failures.say(f"dlojz: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
