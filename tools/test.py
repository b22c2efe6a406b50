"""Every test: first those that look at times, alone; then the labs and the notebooks, beside each other.

    python tools/test.py [ARGUMENTS OF PYTEST]        what runs beside is shown when it has ended
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

APART = ["tests/labs", "tests/notebooks"]
ROUNDS = [[["tests", *(f"--ignore={folder}" for folder in APART)]], [[folder] for folder in APART]]


def main(arguments: list[str]) -> int:
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    codes, running = [], []
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all of us: wait until they have tidied up
    signal.signal(signal.SIGTERM, lambda *_: [each.send_signal(signal.SIGINT) for each in running])
    for first, *others in ROUNDS:
        with contextlib.ExitStack() as stack:
            logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in others]
            running[:] = [subprocess.Popen([*pytest, *each], stdout=log, stderr=log) for each, log in zip(others, logs)]
            running.insert(0, subprocess.Popen([*pytest, *first]))
            codes += [each.wait() for each in running]
            for log in logs:
                log.seek(0)
                sys.stdout.buffer.write(log.read())
                sys.stdout.flush()
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
