"""Nothing heavy is imported before it is needed."""

import subprocess
import sys
import time

import pytest
from training import ROOT, environment

HEAVY = ("torch", "torchvision", "numpy", "matplotlib", "IPython", "ipywidgets", "PIL", "pynvml", "optuna")


def python(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=60)


MODULES = [
    "dlojz", "dlojz.cli", "dlojz.training.records", "dlojz.training.summary", "dlojz.training.options",
    "dlojz.training.failures", "dlojz.training.distributed", "dlojz.system.machine", "dlojz.training.energy",
    "dlojz.training.chronometer", "dlojz.system.sites", "dlojz.jobs", "dlojz.doctor", "dlojz.labs.verbs",
    "dlojz.labs.catalogue", "dlojz.labs.workspace", "dlojz.system.workspace", "dlojz.ui.page", "dlojz.ui.words",
]


@pytest.mark.parametrize("module", MODULES)
def test_imports_nothing_heavy(module):
    done = python("-c", f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY})))")
    assert done.returncode == 0 and done.stdout.split() == [], done.stderr + done.stdout


QUICK = {"import": (["-c", "import dlojz"], 0.15), "help": (["-m", "dlojz.cli", "--help"], 0.25)}


@pytest.mark.parametrize("what", QUICK)
def test_is_quick(what):
    words, limit = QUICK[what]
    python(*words)  # compiles what was changed
    best = 9.0
    for _ in range(30):  # other things may be going on here: the quickest of many tells
        begun = time.perf_counter()
        assert python(*words).returncode == 0
        best = min(best, time.perf_counter() - begun)
        if best < limit:
            break
    assert best < limit


def test_every_verb_is_there():
    done = python("-c", "import dlojz; print([name for name in dlojz.__all__ if not hasattr(dlojz, name)])")
    assert done.stdout.strip() == "[]", done.stderr
