"""Copies of a trainee's files, in folders of the check's own: what runs there reaches nothing of the workspace.

A copy may hold the kit's body in some of its fences. Its files then have other line numbers, so each copy knows which line of
the trainee's file a line of its own is.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...system import textfile
from ...system.errors import UsageError
from .. import catalogue, fences

MOST, LARGEST = 200, 2**20  # files, and bytes of one: a workspace may hold a whole repository
NOT_IMPORTED = ("runs", "backup")  # of a workspace's folders: what jobs wrote, and what was replaced


@dataclass
class Copy:
    """``root``: its folder. ``digest``: of the contents of all files. ``places``: for files in which bodies were replaced, the
    trainee's line number of each line."""

    root: Path
    digest: str
    places: dict[str, list[int]] = field(default_factory=dict)

    def line(self, file: str | None, number: int | None) -> int | None:
        """The line of the trainee's file that this line is, or the first of the fence that it is in."""
        places = self.places.get(file or "")
        return places[min(number, len(places)) - 1] if places and number else number


class Copies:
    """Makes the copies of ``folder``'s files in ``into``, each once. ``lab``: the one that is checked, if any."""

    def __init__(self, folder: Path, into: Path, lab=None):
        self.folder, self.into, self.lab = Path(folder), Path(into), lab
        self.into.mkdir(parents=True, exist_ok=True)
        self._made: dict[frozenset, Copy] = {}
        self._contents = {name: content for name, content in self._read()}

    def _read(self) -> Iterable[tuple[str, bytes]]:
        """What a script may import: the .py files at the top and one folder below."""
        found = [path for path in (*self.folder.glob("*.py"), *self.folder.glob("*/*.py"))
                 if path.relative_to(self.folder).parts[0] not in NOT_IMPORTED and not path.parent.name.startswith(".")]
        for path in sorted(found)[:MOST]:
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_size <= LARGEST:
                    yield path.relative_to(self.folder).as_posix(), path.read_bytes()

    # ------------------------------------------------------------------------------------------------------- which fences
    def others(self) -> list[str]:
        """The fences of other labs in which the trainee has something of their own: neither the stub nor the kit's body."""
        found = []
        for name, text in self._texts().items():
            every, stubs = catalogue.reference_fences(name), catalogue.stubs_in(name)
            for fence in fences.find(text, name, every).fences.values():
                kits = (every[fence.id].body, stubs.get(fence.id, ""))
                if not self._own(fence.id) and not any(fences.same(fence.body, body) for body in kits):
                    found.append(fence.id)
        return found

    def answered(self) -> list[str]:
        """The lab's fences in which something else stands than the kit's body, in order."""
        found = []
        for name, text in self._texts().items():
            every = catalogue.reference_fences(name)
            found += [fence.id for fence in fences.find(text, name, every).fences.values()
                      if self._own(fence.id) and not fences.same(fence.body, every[fence.id].body)]
        return found

    def damaged(self) -> list[str]:
        """The lab's fences that are gone or damaged."""
        lost = []
        for name in (self.lab.files if self.lab else ()):
            found = fences.find(self._texts().get(name, ""), name, catalogue.reference_fences(name)).fences
            lost += [fence for fence in self.lab.fences_in(name) if fence not in found]
        return lost

    def lab_fences(self) -> list[str]:
        """All fences of the lab that is checked."""
        return list(self.lab.fences) if self.lab else []

    def fences_of(self, names: Collection[str]) -> list[str]:
        """All fences of labs ("gpu"), and single ones ("ddp.sampler")."""
        return [fence for name in names for fence in ([name] if "." in name else catalogue.lab(name).fences)]

    def _own(self, fence: str) -> bool:
        return self.lab is not None and self.lab.owns(fence)

    def _texts(self) -> dict[str, str]:
        """Of the kit's files that are here."""
        return {name: textfile.decode(content)[0] for name, content in self._contents.items() if name in catalogue.files()}

    # ----------------------------------------------------------------------------------------------------------- copies
    def copy(self, solved: Iterable[str] = (), whole: bool = False) -> Copy:
        """One with the kit's body in these fences. Where a fence is gone or damaged: the trainee's own, or, with ``whole``, the
        kit's file in place of it, its other fences stubbed where the trainee's file has the stub."""
        solved = frozenset(solved)
        key = solved | {"whole"} if whole else solved
        if key not in self._made:
            self._made[key] = self._make(solved, whole)
        return self._made[key]

    def _make(self, solved: frozenset, whole: bool) -> Copy:
        root = self.into / f"copy{len(self._made)}"
        root.mkdir()
        digest, places = hashlib.sha256(), {}
        for name, content in self._contents.items():
            if solved and name in catalogue.files():
                content, places[name] = self._replaced(name, content, solved, whole)
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            path = root / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return Copy(root, digest.hexdigest(), places)

    def _replaced(self, name: str, content: bytes, solved: frozenset, whole: bool) -> tuple[bytes, list[int]]:
        text, encoding, errors = textfile.decode(content)
        every = catalogue.reference_fences(name)
        bodies = {fence: at.body for fence, at in every.items() if fence in solved}
        found = fences.find(text, name, every)
        if whole and any(fence not in found.fences for fence in bodies):
            return self._kits(name, found, solved), []
        bodies = {fence: body for fence, body in bodies.items() if fence in found.fences}
        if not bodies:
            return content, []
        new = fences.replace(text, bodies, name, every)
        with contextlib.suppress(UnicodeEncodeError, UsageError):
            return new.encode(encoding, errors), _places(found, fences.find(new, name, every), bodies, len(textfile.lines(new)))
        return content, []

    @staticmethod
    def _kits(name: str, found: fences.Fenced, solved: frozenset) -> bytes:
        stubs = {fence: stub for fence, stub in catalogue.stubs_in(name).items() if fence not in solved
                 and fence in found.fences and fences.same(found.fences[fence].body, stub)}
        return fences.replace(catalogue.reference(name).read_text(encoding="utf-8"), stubs, name).encode()


def _places(old: fences.Fenced, new: fences.Fenced, bodies: Collection[str], count: int) -> list[int]:
    """For each line of the new text the line of the old one."""
    places, shift, ends = [], 0, {}
    for fence in bodies:
        ends[new.fences[fence].first] = fence
    number = 1
    while number <= count:
        places.append(number + shift)
        if fence := ends.get(number):
            inside = new.fences[fence].last - number - 1
            places += [old.fences[fence].first] * inside
            number += inside
            shift = old.fences[fence].last - new.fences[fence].last
        number += 1
    return places
