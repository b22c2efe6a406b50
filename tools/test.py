"""Every test that is quick for what it finds; with ``--all`` the long ones too.

    python tools/test.py [--all] [ARGUMENTS OF PYTEST]

First all that may share the machine, then, one at a time, what is marked `alone`. Nothing that was started is left running.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# Notebooks and checks wait for jobs and processes of theirs about a third of their time.
WORKERS = min(8, 3 * len(os.sched_getaffinity(0)) // 2 or 1)
TOGETHER = [f"--numprocesses={WORKERS}", "--dist=loadscope", "--no-loadscope-reorder"]
SET_CHILD_SUBREAPER = 36  # linux/prctl.h
INTERRUPTED, NO_TESTS = 2, 5  # exit codes of pytest: stopped by the user; none was selected
# nbval, which only the notebooks' own processes need, takes seconds to import.
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbval"]
GRACE = 20  # seconds for what is just ending


def main(arguments: list[str]) -> int:
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    long = "" if "--all" in arguments else " and not long"
    arguments = [argument for argument in arguments if argument != "--all"]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # processes whose parents have ended become our children
    # More threads than cores, in many processes: one that waits for another must not keep the core that the other needs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    codes, running = [], []
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends it to all of us: wait until they have tidied up
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGINT) for pid in running])
    for marked, how in (("not alone", TOGETHER), ("alone", [] if any(map(os.path.exists, arguments)) else files_with("alone"))):
        command = [*PYTEST, "-m", marked + long, *how, *arguments]
        running[:] = [subprocess.Popen(command).pid]
        codes.append(wait_for(running[0]))
        if codes[-1] == INTERRUPTED:
            break
    end_all()
    return max((abs(code) for code in codes if code != NO_TESTS), default=0)


def files_with(marker: str) -> list[str]:
    """The test files that use this marker: to collect all others takes longer than to read them."""
    files = sorted(Path("tests").rglob("test_*.py"))
    return [str(file) for file in files if f"mark.{marker}" in file.read_text(encoding="utf-8")]


def wait_for(pid: int) -> int:
    """The exit code of this child. Others that became ours are reaped on the way."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def end_all() -> None:
    """Give what is still running a while to end, then kill it and say so."""
    until = time.monotonic() + GRACE
    while left := children():
        if time.monotonic() > until:
            print("left running, and killed:", *(f"{pid} ({name})" for pid, name in left), flush=True)
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
            until += 1
        reap()
        time.sleep(0.2)


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def children() -> list[tuple[int, str]]:
    """Our own children, with their command lines. Theirs become ours when they end."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            pids = [int(word) for word in file.read().split()]
    except OSError:
        return []
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if words:  # a zombie has none
            found.append((pid, words[:100]))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
