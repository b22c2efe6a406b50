"""Printing and saving: which process says something, and which writes a file.

``print``  something was printed: rank, text (its first 200 characters)
``save``   torch.save was called for a file: rank, path (also where an open file was given), kind (of what is saved), wrapped (the
           names in it that a wrapper gives: module.…, _orig_mod.…)
"""

from __future__ import annotations

import builtins
import functools
import os
import sys

import torch

LONGEST = 200


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.rank = int(os.environ.get("RANK", "0"))

    def install(self):
        builtins.print = self.noting_print(builtins.print)
        torch.save = torch.serialization.save = self.noting_save(torch.save)

    def noting_print(self, original):
        @functools.wraps(original)
        def noted(*values, sep=" ", file=None, **kwargs):
            if file in (None, sys.stdout, sys.stderr) and self.log.wants("print"):
                text = (" " if sep is None else sep).join(map(str, values))
                self.log.note("print", rank=self.rank, text=text[:LONGEST])
            original(*values, sep=sep, file=file, **kwargs)

        return noted

    def noting_save(self, original):
        @functools.wraps(original)
        def noted(obj, f, *args, **kwargs):
            path = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
            if path is not None:  # else it is on its way to another process
                self.log.note("save", rank=self.rank, path=str(path), kind=kind_of(obj), wrapped=wrapped_names(obj))
            return original(obj, f, *args, **kwargs)

        return noted


def kind_of(saved) -> str:
    return "dict" if isinstance(saved, dict) else type(saved).__name__


def wrapped_names(saved) -> list[str]:
    """The names of what is saved that begin as a wrapper gives them: DDP with module., torch.compile with _orig_mod."""
    if not isinstance(saved, dict):
        return []
    own = [name for name in saved if isinstance(name, str) and name.startswith(("module.", "_orig_mod."))]
    return [*own, *(name for value in saved.values() for name in wrapped_names(value))]
