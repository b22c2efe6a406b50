"""Reading and writing a trainee's file so that what is not edited stays as it is, to the last byte.

Byte order marks, Windows line ends, mixed ones, declared encodings (PEP 263) and even broken ones come back as they were.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import shutil
import tempfile
import time
import tokenize
from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError


@dataclass(frozen=True)
class TextFile:
    """A file's text, line ends untouched, and how to turn it into the same bytes again."""

    path: Path
    text: str
    encoding: str = "utf-8"
    errors: str = "strict"

    def encode(self, text: str) -> bytes:
        try:
            return text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            has_no = f"which has no {text[error.start]!r}"
            raise UsageError(f"{self.path.name} is saved as {self.encoding}, {has_no}: save it as UTF-8 first") from None

    def write(self, text: str) -> None:
        """Put ``text`` in place of the file's: beside it first, then renamed, so that a kill leaves one or the other."""
        write_bytes(self.path, self.encode(text))


def read(path: Path) -> TextFile:
    """The text of a file. Raises FileNotFoundError where it isn't there, UsageError where it can't be read as Python would."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path.name} is saved as UTF-16, which Python does not read: save it as UTF-8 in your editor")
    return TextFile(path, *decode(raw))


def decode(raw: bytes) -> tuple[str, str, str]:
    """Text, encoding and error handler that give back the very same bytes."""
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        text = raw.decode(encoding)
        if text.encode(encoding) == raw:
            return text, encoding, "strict"
    except (SyntaxError, UnicodeError, LookupError):
        pass  # Python will say so when it runs the file; it can be edited all the same
    return raw.decode("utf-8", "surrogateescape"), "utf-8", "surrogateescape"


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside and rename; a link is followed, the file's permissions stay. Raises UsageError."""
    path = Path(os.path.realpath(path))
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            if path.exists():
                shutil.copymode(path, beside)
            else:
                os.chmod(beside, 0o666 & ~_umask())
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        mend = "Free some space or fix its permissions; nothing was changed"
        raise UsageError(f"cannot write {path}: {error.strerror}. {mend}") from None


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def back_up(workspace: Path, names: list[str], why: str) -> list[Path]:
    """Keep copies of files of the workspace under ``backup/``, all in one folder, and return them. Raises UsageError."""
    stamp = time.strftime("%Y-%m-%d_%H%M%S")
    try:
        for number in range(1, 1000):
            folder = workspace / "backup" / (f"{stamp}_{why}" + (f"-{number}" if number > 1 else ""))
            try:
                folder.mkdir(parents=True)
                break
            except FileExistsError:
                continue
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
        return [Path(shutil.copy2(workspace / name, folder / name)) for name in names]
    except OSError as error:
        what, where = " and ".join(names), workspace / "backup"
        raise UsageError(f"cannot keep a copy of {what} in {where}: {error.strerror}. Nothing was changed") from None


LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def lines(text: str) -> list[str]:
    """The lines as Python counts them, each with its own end (``str.splitlines`` would split at form feeds, too)."""
    return LINES.findall(text)


def line_end(line: str) -> str:
    """The characters that end this line; empty for a last line without any."""
    return line[len(line.rstrip("\r\n")):]


def common_end(text: str) -> str:
    """The line end that most lines have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
