"""How one of several processes ends: with its exit code and all that it had to say, but not with Python's own end, at which
gloo's threads abort it now and then."""

import ast
import subprocess
import sys

import pytest
from training import LIMIT, ROOT, environment

# The last things that Python does at the end of a script. The thread may print before the main one does, or after it.
ENDING = """
import atexit, os, sys, threading, time
def say(text):
    sys.stdout.write(text + "\\n")  # print writes twice, and a thread may come between
class Canary:
    def __del__(self, write=os.write):
        write(1, b"taken down")
canary = Canary()
atexit.register(say, "at exit")
threading.Thread(target=lambda: (time.sleep(0.3), say("a thread"))).start()
from dlojz import distributed, failures
"""
TWO = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1"}
REPORTED = "with failures.reported() as (procs, record):\n    "


def said(program: str, code: int = 0, **env: str) -> list[str]:
    """What it printed: the thread's line first, then the others in their order. The thread's must come before ``at exit``."""
    done = subprocess.run([sys.executable, "-c", ENDING + program], env=environment(**env), text=True, capture_output=True,
                          timeout=LIMIT)
    assert done.returncode == code and not done.stderr, done
    lines = done.stdout.splitlines()
    assert lines.index("a thread") < lines.index("at exit"), "Python waits for its threads first"
    return sorted(lines, key=lambda line: line != "a thread")


@pytest.mark.parametrize("code", [0, 75])
def test_leave_does_all_that_python_does_at_the_end_but_take_itself_down(code):
    assert said(f"say('done'); sys.exit({code})", code) == ["a thread", "done", "at exit", "taken down"]
    assert said(f"say('done'); distributed.leave({code})", code) == ["a thread", "done", "at exit"]


@pytest.mark.parametrize("block, code", [("say('done')", 0),
                                         ("say('done'); sys.exit()", 0), ("say('done'); sys.exit(75)", 75)])
def test_one_of_several_processes_leaves_so_and_one_alone_as_always(block, code):
    assert said(REPORTED + block, code) == ["a thread", "done", "at exit", "taken down"]
    assert said(REPORTED + block, code, **TWO) == ["a thread", "done", "at exit"]


def scripts():
    """All of ours that make a process group when they are run."""
    for file in sorted([*(ROOT / "dlojz").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        if "init_process_group(" not in (text := file.read_text()):
            continue
        mains = [node for node in ast.parse(text).body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)]
        if mains:
            yield pytest.param(mains[0], id=str(file.relative_to(ROOT)))


def test_there_are_such_scripts():
    assert len(list(scripts())) >= 10


@pytest.mark.parametrize("main", list(scripts()))
def test_our_scripts_leave_so(main):
    first, last = ast.unparse(main.body[0]), ast.unparse(main.body[-1])
    assert first.startswith("with failures.reported()") or last.startswith("distributed.leave("), ast.unparse(main)
