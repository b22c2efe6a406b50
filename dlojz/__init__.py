"""The DLO-JZ kit: make one PyTorch training script fast, then scale it to many GPUs.

The verbs of a notebook are here; the same verbs in a shell are ``dlojz …``. Importing this package imports neither torch nor
Jupyter nor matplotlib: each verb brings what it needs when it is first used.
"""

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

# verb -> (module, name in it)
_VERBS = {
    "submit": ("dlojz.jobs", "submit"),
    "jobs": ("dlojz.jobs", "jobs"),
    "reference": ("dlojz.jobs.recorded", "reference"),
    "site": ("dlojz.system.sites", "current"),
    "doctor": ("dlojz.doctor", "doctor"),
    "edit": ("dlojz.labs.verbs", "edit"),
    "check": ("dlojz.labs.verbs", "check"),
    "hint": ("dlojz.labs.verbs", "hint"),
    "diff": ("dlojz.labs.verbs", "diff"),
    "solve": ("dlojz.labs.verbs", "solve"),
    "reset": ("dlojz.labs.verbs", "reset"),
    "catch_up": ("dlojz.labs.verbs", "catch_up"),
    "quiz": ("dlojz.labs.quiz", "quiz"),
    "predict": ("dlojz.labs.quiz", "predict"),
    "progress": ("dlojz.labs.progress", "progress"),
    "publish": ("dlojz.labs.room", "publish"),
    "feedback": ("dlojz.labs.room", "feedback"),
    "todo": ("dlojz.training.todos", "todo"),
    "views": ("dlojz.views", "views"),
    "Chronometer": ("dlojz.training.chronometer", "Chronometer"),
    "Recorder": ("dlojz.training.recorder", "Recorder"),
    "Training": ("dlojz.training.training", "Training"),
}

# Modules that scripts and notebooks import by name alone, `from dlojz import records`.
_MODULES = {
    **dict.fromkeys(["errors", "machine", "paths", "sites"], "system"),
    **dict.fromkeys(["callbacks", "checkpoint", "chronometer", "distributed", "energy", "failures", "options", "records",
                     "summary"], "training"),
    **dict.fromkeys(["photos", "shards"], "data"),
}

__all__ = sorted(_VERBS)


def __getattr__(name):
    if name in _MODULES:
        return import_module(f"dlojz.{_MODULES[name]}.{name}")
    if name not in _VERBS:
        raise AttributeError(f"module 'dlojz' has no attribute {name!r}")
    module, attribute = _VERBS[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *__all__]


class _Package(ModuleType):
    """Importing a submodule binds it to its package: the modules ``dlojz.jobs`` and ``dlojz.doctor`` must not hide the verbs."""

    def __setattr__(self, name, value):
        if not (name in _VERBS and isinstance(value, ModuleType) and name != "views"):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
