"""What only GPUs can show, one part after the other and each within its time. CI has no GPU: run this before a release.

    python tools/gpu.py OUT [PART ...] [--minutes M]

What each part printed is in ``OUT/PART.log``, what was measured in ``OUT/results`` (see docs/day2.md); at the end stands a line
for each part. A part that runs out of time is interrupted, and tells what it had until then. The parts that need two GPUs are
left out where there is one.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dlojz.system import machine, processes, sites  # noqa: E402

PYTEST = ["-m", "pytest", "-p", "no:cacheprovider", "--durations=10"]
MANY = [f"--numprocesses={max(2, machine.cores_allowed() * 2 // 3)}", "--dist=worksteal", "-v"]
JPEG = ["-m", "dlojz.data", "{data}", "--images", "25600", "--mean-kb", "50"]
DAY2 = ["-m", "dlojz.benchmarks.day2", "--data", "{data}", "--out", "{out}/results"]
SEVERAL = ["-m", "dlojz.benchmarks.several", "--out", "{out}/results"]
# Part -> the GPUs that it needs, the minutes that it takes with H200s and 16 cores for each, and its commands: Python's arguments
# ({data}: a folder for images, {out}: for results). What looks at times runs alone.
PARTS = {
    "checks": (1, 2.5, [[*PYTEST, *MANY, "tests/labs/test_checks.py", "tests/labs/test_probe_pretend.py"]]),
    "notebooks": (1, 6, [[*PYTEST, *MANY, "tests/notebooks", "-k", "executes"]]),
    "resume": (1, 2.5, [[*PYTEST, "--numprocesses=5", "-v", "tests/test_train_gpu.py"]]),
    "traces": (1, 2, [[*PYTEST, "-v", "-m", "gpu", "tests/test_chronometer.py", "tests/test_blocks.py", "tests/traces"]]),
    "ddp": (2, 5, [[*PYTEST, *MANY, "tests/notebooks", "-k", "executes and (day2_2 or day2_3)"]]),
    "breaks": (2, 1, [[*PYTEST, "-v", "-m", "gpu", "tests/labs/test_breaks.py"]]),
    "feeding": (1, 9, [JPEG, [*DAY2, "loader", "augment"]]),
    "hunts": (2, 1, [[*PYTEST, *MANY, "tests/labs/test_hunts_gpu.py"]]),
    "sharding": (2, 5, [[*PYTEST, *MANY, "tests/notebooks", "-k", "executes and (day4_2 or day4_3)"]]),
    "ranks": (2, 3, [[*DAY2, "scaling", "metrics", "syncbn", "unused"]]),
    "ways": (2, 3, [["-m", "dlojz.benchmarks.parallel", "--out", "{out}/results"]]),
    "sizes": (2, 4, [[*SEVERAL, "sizes", "hybrid"]]),
    "resumed": (2, 2, [[*SEVERAL, "resumed"]]),
    "scaling": (2, 2, [[*SEVERAL, "lm_scaling"]]),
    "search": (2, 1, [["-m", "dlojz.benchmarks.searching", "search", "--out", "{out}/results"]]),
    "ladder": (1, 4, [["-m", "dlojz.benchmarks.ladder", "--json", "{out}/results/ladder.json"]]),
}
TELLING = 40  # seconds for pytest to end its workers and to tell what failed until then


def run(command: list[str], log, limit: float) -> str:
    """Runs Python with these arguments for at most ``limit`` seconds, and ends all that it started; returns how it ended."""
    mark = f"KIT_PART={os.getpid()}-{time.monotonic_ns()}"
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                               env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict([mark.split("=")]))
    try:
        code = process.wait(limit)
        return "done" if not code else f"exit code {code}"
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TELLING)
        return "out of time"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        processes.end(mark)  # jobs and kernels have sessions of their own, and would disturb the next part


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python tools/gpu.py", description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="folder for logs and results")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (all of them)")
    parser.add_argument("--minutes", type=float, default=60, help="for all of it (%(default)s)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: expected are {', '.join(PARTS)}")
    out = args.out.resolve()
    (out / "results").mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="dlojz-gpu-")) / "jpeg"
    end = time.monotonic() + 60 * args.minutes
    gpus = len(sites.gpus())
    ended = {name: f"{name:<12}needs more GPUs: {PARTS[name][0]}" for name in args.parts if PARTS[name][0] > gpus}
    parts = [name for name in args.parts or PARTS if PARTS[name][0] <= gpus]
    if not args.parts and not parts:
        parser.error("there is no GPU here")
    for number, name in enumerate(parts):
        _, weight, commands = PARTS[name]
        share = weight / sum(PARTS[other][1] for other in parts[number:])
        limit = time.monotonic() + share * (end - time.monotonic())
        begun = time.monotonic()
        with open(out / f"{name}.log", "w") as log:
            for command in commands:
                said = run([word.format(data=data, out=out) for word in command], log, limit - time.monotonic())
                if said != "done":
                    break
        ended[name] = f"{name:<12}{said:<16}{time.monotonic() - begun:>7.0f} s"
        print("\n".join((out / f"{name}.log").read_text(errors="replace").splitlines()[-25:]), flush=True)
    shutil.rmtree(data.parent, ignore_errors=True)
    print("\n" + "\n".join(ended.values()))
    return int(any(" done " not in line for line in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
