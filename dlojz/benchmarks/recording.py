"""Records the runs of the first day's labs for `reference`, each in a process of its own.

    python -m dlojz.benchmarks.recording [NAME …] [--into FOLDER] [-- SWITCHES]

Kept is what the record of a run says, in FOLDER/CARD/NAME.jsonl. Switches after ``--`` are added to each run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ..jobs import recorded
from ..labs.device_runs import sized
from ..system import sites, suggest
from ..system.errors import UsageError
from .runs import run


def commands(scale: str) -> dict[str, str]:
    """The runs as the notebooks name them, with the switches of each."""
    here = sized(scale)
    named = {"gpu": here.run, "amp": f"{here.run} --amp bf16", "amp_fp16": f"{here.run} --amp fp16",
             "channels_last_fp32": f"{here.run} --channels-last", "channels_last": f"{here.run} --amp bf16 --channels-last"}
    named |= {f"sweep-{number}": f"{here.short} --batch-size {size}" for number, size in enumerate(here.batches, 1)}
    named |= {f"amp_pair-{number}": f"{here.short} --amp bf16 --batch-size {size}" for number, size in enumerate(here.apart, 1)}
    return {name: command.removeprefix("train.py ") for name, command in named.items()}


def main(argv=None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    argv, extra = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.recording", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="which runs (all)")
    parser.add_argument("--into", type=Path, default=recorded.FOLDER, metavar="FOLDER", help="(%(default)s)")
    args = parser.parse_args(argv)
    known = commands(sites.resolve_scale("auto"))
    if unknown := next((name for name in args.names if name not in known), ""):
        parser.error(f"there is no run {unknown!r}: {suggest.hint(unknown, known)}There is {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="dlojz-recording-") as folder:
        for name in args.names or known:
            try:
                found = run([*known[name].split(), *extra], Path(folder) / name)
            except UsageError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            if found.end and found.end.get("status") == "completed":
                print(f"{name}: {recorded.save(found, name, args.into)}", flush=True)
            else:
                print(f"{name}: did not complete, so it is not kept", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
