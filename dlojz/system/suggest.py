"""“Did you mean”: what is near to a name that isn't there, the same way for labs, switches, verbs, sites, runs and keys."""

from __future__ import annotations

from collections.abc import Iterable


def names(name: object, known: Iterable[str], most: int = 1) -> list[str]:
    """Those of the known names that may have been meant, the nearest first: a slip of the fingers, or the beginning of a name.

    What is merely the least unlike is not among them: a guess that is far off is worse than none.
    """
    from difflib import SequenceMatcher

    asked = _plain(name)
    found = []
    for one in known:
        ratio = SequenceMatcher(None, _plain(one), asked).ratio()
        # A wrong letter in a name of three leaves two thirds of it alike.
        alike = ratio >= (0.65 if len(asked) <= 4 else 0.7)
        if alike or (len(asked) >= 3 and _plain(one).startswith(asked)):
            found.append((-ratio, one))
    return [one for _, one in sorted(found, key=lambda each: each[0])[:most]]


def hint(name: object, known: Iterable[str], most: int = 1) -> str:
    """``did you mean 'amp'? ``, to be followed by what there is; empty where nothing is near."""
    found = names(name, known, most)
    return f"did you mean {' or '.join(map(repr, found))}? " if found else ""


def _plain(name: object) -> str:
    return str(name).lower().replace("-", "_").strip("_")
