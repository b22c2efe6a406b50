"""Observers: what the probe looks at. Each module here is one, found by its name; to add one is to add its file.

A module has a class ``Observer``::

    class Observer:
        def __init__(self, log, options): ...          # options: what the check said in probe.run(…)
        def install(self): ...                         # patch what it wants to see; nothing of the trainee's has run yet
        def before_op(self, operation, args, kwargs): ...           # optional, as are the next four
        def after_op(self, operation, args, kwargs, result): ...
        def before_call(self, function, args, kwargs): ...
        def finish(self): ...                          # the script has ended

and notes facts with ``log.note("kind", name=value, …)``, which a check reads with ``run.first("kind")`` and ``run.all("kind")``.
An observer without the ``…_op`` and ``before_call`` methods leaves torch's dispatch alone.
"""

from __future__ import annotations

import importlib
import pkgutil


def names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def load(name: str):
    return importlib.import_module(f"{__name__}.{name}").Observer
