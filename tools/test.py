"""Every test, in two halves beside each other: most tests wait for a process, a queue or a clock and leave a core free.

    python tools/test.py [ARGUMENTS OF PYTEST]        the first half is shown as it goes, the second when it has ended
"""

import os
import signal
import subprocess
import sys
import tempfile

APART = ["tests/labs", "tests/notebooks"]
HALVES = [["tests", *(f"--ignore={folder}" for folder in APART)], APART]


def main(arguments: list[str]) -> int:
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    pytest = [sys.executable, "-m", "pytest", *arguments]
    with tempfile.TemporaryFile() as log:
        second = subprocess.Popen([*pytest, "-p", "no:cacheprovider", *HALVES[1]], stdout=log, stderr=subprocess.STDOUT)
        first = subprocess.Popen([*pytest, *HALVES[0]])
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all of us: wait until they have tidied up
        signal.signal(signal.SIGTERM, lambda *_: [half.send_signal(signal.SIGINT) for half in (first, second)])
        codes = [first.wait(), second.wait()]
        log.seek(0)
        sys.stdout.buffer.write(log.read())
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
