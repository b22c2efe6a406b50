"""Nothing heavy is imported before it is needed."""

import resource
import subprocess
import sys

import pytest
from patience import LIMIT
from training import ROOT, environment

HEAVY = ("torch", "torchvision", "numpy", "matplotlib", "IPython", "ipywidgets", "PIL", "pynvml", "optuna")


def python(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=LIMIT)


MODULES = [
    "dlojz", "dlojz.cli", "dlojz.training.records", "dlojz.training.summary", "dlojz.training.options",
    "dlojz.training.failures", "dlojz.training.distributed", "dlojz.system.machine", "dlojz.training.energy",
    "dlojz.training.chronometer", "dlojz.training.trials", "dlojz.system.sites", "dlojz.jobs", "dlojz.doctor", "dlojz.labs.verbs",
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
    best = 9.0
    for _ in range(30):  # processor time, since others may use the machine; the quickest, since they take the caches too
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert python(*words).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if best < limit:
            break
    assert best < limit


def test_every_verb_is_there():
    done = python("-c", "import dlojz; print([name for name in dlojz.__all__ if not hasattr(dlojz, name)])")
    assert done.stdout.strip() == "[]", done.stderr
