"""Every test: first those that look at times or start a Slurm, alone; then all others, three at a time on two cores.

    python tools/test.py [ARGUMENTS OF PYTEST]
"""

import os
import signal
import subprocess
import sys

ALONE = ["tests/cluster", "tests/jobs", "tests/traces/test_cpu_traces.py",
         *(f"tests/test_{name}.py" for name in ("benchmarks", "chronometer", "import", "rollcall", "train", "train_faults"))]
# Notebooks and checks wait for jobs and processes of theirs about a third of their time.
WORKERS = min(8, 3 * len(os.sched_getaffinity(0)) // 2 or 1)
ROUNDS = [ALONE, ["tests", *(f"--ignore={path}" for path in ALONE), f"--numprocesses={WORKERS}", "--dist=worksteal"]]


def main(arguments: list[str]) -> int:
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    codes, running = [], []
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all of us: wait until they have tidied up
    signal.signal(signal.SIGTERM, lambda *_: [each.send_signal(signal.SIGINT) for each in running])
    for round_ in ROUNDS:
        running[:] = [subprocess.Popen([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, *round_])]
        codes.append(running[0].wait())
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
