"""Small TOML files with a schema: what is not as expected is refused with the file, the line and what was expected."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from . import suggest
from .errors import UsageError

MISSING = dataclasses.MISSING


def key(expected: str, right: Callable[[object], bool], default=MISSING, convert: Callable = lambda value: value):
    """A field of a schema: in words and as a test what a file may say for it. Without a default it has to be there."""
    return dataclasses.field(default=default, metadata={"expected": expected, "right": right, "convert": convert})


def text(expected: str = "a text in quotes", default=MISSING):
    return key(expected, lambda value: isinstance(value, str) and bool(value.strip()), default)


def whole(low: int, high: int, default=MISSING):
    return key(f"a whole number from {low} to {high}", lambda value: type(value) is int and low <= value <= high, default)


def number(low: float = 0.0, default=MISSING):
    return key(f"a number, at least {low:g}", lambda value: type(value) in (int, float) and value >= low, default)


def words(expected: str, default=MISSING):
    def right(value):
        return isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value)

    return key(expected, right, default, tuple)


def choice(*allowed: str, default=MISSING):
    return key("one of " + ", ".join(f'"{word}"' for word in allowed), lambda value: value in allowed, default)


def table(kind, default=MISSING):
    """A ``[name]`` table with a schema of its own."""
    return dataclasses.field(default=default, metadata={"table": kind})


def tables(kind):
    """Any number of ``[[name]]`` tables."""
    return dataclasses.field(default=(), metadata={"tables": kind})


def load(kind, file: Path, **filled):
    """A ``kind`` from a file; ``filled`` are fields that are no keys of it. Raises UsageError."""
    try:
        content = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{file} is missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from None
    try:
        parsed = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from None
    return _build(kind, parsed, (), file, content, filled)


def wrong(file: Path, content: str, keys: tuple, message: str) -> UsageError:
    at = line(content, keys)
    return UsageError(f"{file}{f', line {at}' if at else ''}: {message}")


def _build(kind, parsed: dict, keys: tuple, file: Path, content: str, filled: dict):
    fields = {field.name: field for field in dataclasses.fields(kind) if field.metadata}
    values = {}
    for name, value in parsed.items():
        here = (*keys, name)
        if name not in fields:
            hint = suggest.hint(name, fields).strip() or "known keys: " + ", ".join(fields)
            raise wrong(file, content, here, f"unknown key {name!r}; {hint}")
        rule = fields[name].metadata
        if "table" in rule:
            if not isinstance(value, dict):
                raise wrong(file, content, here, f"{name} must be a table: [{name}], then its keys")
            values[name] = _build(rule["table"], value, here, file, content, {})
        elif "tables" in rule:
            if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
                raise wrong(file, content, here, f"{name} must be tables: [[{name}]], then the keys of one")
            values[name] = tuple(_build(rule["tables"], each, (*here, i), file, content, {}) for i, each in enumerate(value))
        elif not rule["right"](value):
            raise wrong(file, content, here, f"{name} = {_toml(value)} is not possible: expected {rule['expected']}")
        else:
            values[name] = rule["convert"](value)
    for name, field in fields.items():
        if name not in values and field.default is MISSING:
            expected = field.metadata.get("expected", "a table")
            raise wrong(file, content, keys, f"{name} is missing: expected {expected}")
    made = kind(**values, **filled)
    if problem := getattr(made, "problem", lambda: None)():
        name, message = problem
        raise wrong(file, content, (*keys, name), message)
    return made


def _toml(value) -> str:
    said = str(value).lower() if isinstance(value, bool) else repr(value)
    return said if len(said) <= 60 else said[:57] + "..."


def line(content: str, keys: tuple) -> int | None:
    """The line (from 1) on which a key stands, or the table that it is in. A number in ``keys`` counts ``[[tables]]``."""
    found, closest, where = None, 0, ()
    counts: dict[tuple, int] = {}
    for at, text_line in enumerate(content.splitlines(), 1):
        header = re.match(r"\s*(\[\[?)\s*([\w.\" -]+?)\s*\]\]?\s*(#.*)?$", text_line)
        assignment = None if header else re.match(r"\s*([\w-]+)\s*=", text_line)
        if header:
            where = tuple(part.strip().strip('"') for part in header[2].split("."))
            if header[1] == "[[":
                counts[where] = counts.get(where, -1) + 1
                where = (*where, counts[where])
            here = where
        elif assignment:
            here = (*where, assignment[1])
        else:
            continue
        shared = 0
        while shared < min(len(here), len(keys)) and here[shared] == keys[shared]:
            shared += 1
        if shared == len(here) and shared > closest:
            found, closest = at, shared
    return found
