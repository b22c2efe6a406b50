"""Environment variables for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def environment(**own: str) -> Iterator[None]:
    """These variables in the environment of this process, and afterwards what was there before."""
    before = {name: os.environ.get(name) for name in own}
    os.environ |= own
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ |= {name: value} if value is not None else {}
