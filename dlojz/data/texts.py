"""Text as tokens: the Python standard library's own sources, which are on every machine, one token per byte.

A set is a folder with train.bin and val.bin, uint16 tokens one after the other, and manifest.json, which says the ``vocabulary``
and the ``separator``, the token that begins a document. Files are mapped into memory: a loader reads what it needs of them.
"""

from __future__ import annotations

import itertools
import json
import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

from ..system import paths
from ..system.errors import UsageError
from . import photos

VERSION = 1  # of the set: another one is another folder in the cache
SEPARATOR = 256  # bytes are 0 to 255
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}  # not on every machine
HELD_OUT = 20  # each so many-th document is for validation


def folder() -> Path:
    """The folder of the set of this Python, made first where it isn't there yet: by one process, while the others wait."""
    target = paths.cache() / f"text-v{VERSION}-python{platform.python_version()}"
    try:
        return photos.made_once(target, _make)
    except OSError as error:
        raise UsageError(f"cannot write the text to {target.parent}: {error.strerror or error}; "
                         "set DLOJZ_CACHE to a folder with 50 MB of room") from None


def library() -> Path:
    """The folder of the standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def _make(target: Path) -> Iterator[None]:
    root = library()
    files = sorted(file for file in root.rglob("*.py") if not LEFT_OUT & set(file.relative_to(root).parts))
    if not files:
        raise UsageError(f"{root} holds no sources: give --data a folder with train.bin and val.bin")
    order = np.random.default_rng(0).permutation(len(files))  # neighbours in the alphabet are alike
    with open(target / "train.bin", "wb") as train, open(target / "val.bin", "wb") as val:
        for number, index in enumerate(order):
            text = np.frombuffer(files[index].read_bytes(), np.uint8).astype(np.uint16)
            (train if number % HELD_OUT else val).write(np.concatenate([np.uint16([SEPARATOR]), text]).tobytes())
            if number % 100 == 0:
                yield
    said = {"version": VERSION, "documents": len(files), "vocabulary": SEPARATOR + 1, "separator": SEPARATOR}
    (target / photos.MANIFEST).write_text(json.dumps(said, indent=1) + "\n")


class Tokens(Dataset):
    """``[i]`` is int64 (length + 1,): the i-th piece of a set and its next token, so that inputs and targets are cut from it.

    ``source``: ``stdlib``, or a folder like the one that is made for it. ``vocabulary`` and ``separator`` (None: not said) are
    those of the manifest. Raises UsageError where the folder is no such set or is shorter than one piece.
    """

    def __init__(self, source: str | Path, split: str, length: int):
        self.folder = folder() if str(source) == "stdlib" else paths.given(source, "stdlib")
        self.length, file = length, self.folder / f"{split}.bin"
        try:
            said = json.loads((self.folder / photos.MANIFEST).read_text())
            self.vocabulary, self.separator = int(said["vocabulary"]), said.get("separator")
            self.tokens = np.memmap(file, np.uint16, "r")
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{self.folder} is no set of tokens ({why}): expected train.bin and val.bin, uint16, and "
                             f"{photos.MANIFEST} with \"vocabulary\" and \"separator\"") from None
        if not len(self):
            raise UsageError(f"{file} has {len(self.tokens):,} tokens, and a row takes {length + 1:,}: use a smaller --length")

    def __len__(self) -> int:
        return max(0, (len(self.tokens) - 1) // self.length)

    def __getitem__(self, index: int) -> torch.Tensor:
        if not 0 <= index < len(self):
            raise IndexError(f"piece {index} of {len(self)}")
        first = index * self.length
        return torch.from_numpy(self.tokens[first : first + self.length + 1].astype(np.int64))

    def set_epoch(self, epoch: int) -> None:
        """The pieces are the same in each epoch."""


def settled(tokens: Tokens, vocabulary: int | None, masked: bool) -> tuple[int, int | None]:
    """The model's vocabulary, ``vocabulary`` or as many as the data has, rounded up to 64, and the data's separator. Raises
    UsageError where the data has more tokens, or no separator to mask by."""
    if vocabulary is not None and vocabulary < tokens.vocabulary:
        raise UsageError(f"--vocabulary {vocabulary} is less than the {tokens.vocabulary} different tokens of {tokens.folder}")
    if masked and tokens.separator is None:
        raise UsageError(f"--mask-documents needs a \"separator\" in {tokens.folder / photos.MANIFEST}")
    return vocabulary or -(-tokens.vocabulary // 64) * 64, tokens.separator


class RandomTokens:
    """``steps`` times the same batch, on the device, int64 (batch_size, length + 1): what a model does without a loader."""

    def __init__(self, batch_size: int, length: int, vocabulary: int, steps: int, device, seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        self.batch = torch.randint(0, vocabulary, (batch_size, length + 1), generator=generator).to(device)
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[torch.Tensor]:
        return itertools.repeat(self.batch, self.steps)
