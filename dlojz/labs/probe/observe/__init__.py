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
Facts say what a run *means* (what the model was given, which update was made), not which functions it called. Those that two
right answers must have in common are named in the module's ``COMPARED = {kind: (key, …)}``; `dlojz.labs.probe.compare` says how.
An observer without the ``…_op`` and ``before_call`` methods leaves torch's dispatch alone.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path


def names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def load(name: str):
    return importlib.import_module(f"{__name__}.{name}").Observer


def compared() -> dict[str, tuple[str, ...]]:
    """What is compared of each kind of fact, as the texts of the modules say it: torch is not imported here."""
    found = {}
    for module in _texts():
        for node in module.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "COMPARED":
                found |= ast.literal_eval(node.value)
    return found


def documented() -> dict[str, str]:
    """By kind of fact: when it is noted, and its keys, as the texts of the modules say it at their top."""
    found: dict[str, str] = {}
    for module in _texts():
        kinds: list[str] = []
        for line in (ast.get_docstring(module) or "").splitlines():
            if head := re.match(r"((?:``[\w.]+`` *)+)  (.*)", line):
                kinds, line = re.findall(r"``([\w.]+)``", head[1]), head[2]
            elif not line.startswith(" "):
                kinds = []
            for kind in kinds:
                found[kind] = f"{found.get(kind, '')} {line.strip()}".strip()
    return found


def _texts() -> list[ast.Module]:
    return [ast.parse(Path(__path__[0], f"{name}.py").read_text(encoding="utf-8")) for name in names()]
