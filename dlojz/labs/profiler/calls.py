"""The training as a process that is not the main one goes through it."""

import contextlib
from pathlib import Path

from dlojz.labs.probe import SMALL
from dlojz.training import options, records
from dlojz.training.distributed import Processes


def another_rank(module, note):
    """Rank 1 alone: on every line that asks for rank and number of processes, a second process without a group."""
    args = module.arguments([*SMALL.split(), "--data", "random", "--profile"])
    procs, record = Processes(rank=1), records.Writer(errors_only=True)
    notes = options.settle(args, procs, False, [args.model])
    args.lr = 0.1
    with contextlib.suppress(SystemExit):
        module.train(args, procs, notes, record.open(Path.cwd()), record)
    note("trained")
