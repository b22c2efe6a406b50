"""``dlojz …``: the notebook's verbs in a shell.

Each verb is a parser below and a function that imports what it needs, so that ``dlojz --help`` stays quick.
"""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .errors import UsageError


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="dlojz", description="Make one PyTorch training script fast, then spread it over many GPUs.")
    top.add_argument("--version", action="version", version=f"dlojz {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    verb = verbs.add_parser("workspace", help="make a folder to work in: notebooks, the scripts to edit, runs/")
    verb.add_argument("folder", metavar="DIR")
    verb.set_defaults(run=workspace)

    verb = verbs.add_parser("doctor", help="look at this machine, its software and its surroundings: what is broken, what to do")
    verb.add_argument("--json", action="store_true", help="all findings with their numbers, for programs")
    verb.set_defaults(run=doctor)

    return top


def workspace(args) -> int:
    from . import workspace

    for line in workspace.create(args.folder):
        print(line)
    print(f"The workspace is {args.folder}")
    return 0


def doctor(args) -> int:
    import shutil

    from .doctor import doctor

    report = doctor()
    sys.stdout.reconfigure(errors="replace")  # names of folders may hold what this terminal can't show
    print(report.json() if args.json else report.text(min(120, shutil.get_terminal_size().columns)))
    return 1 if report.broken else 0


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except UsageError as error:
        print(f"dlojz: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `dlojz log JOB | head`
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
