"""How the doctor looks at things: everything it reads goes through a ``System``, everything it asks has a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class CouldNotLook(Exception):
    """A fact that could not be had; the text says why."""


@dataclass
class System:
    """The machine as the doctor sees it. Tests give another root folder, environment, or ``which``."""

    root: Path = Path("/")
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    platform: str = sys.platform

    def path(self, path: str | Path) -> Path:
        return self.root / str(path).lstrip("/")

    def read(self, path: str | Path) -> str | None:
        """The text of a file, None where it can't be read."""
        try:
            return self.path(path).read_text(errors="replace")
        except OSError:
            return None

    def which(self, program: str) -> str | None:
        import shutil

        return shutil.which(program, path=self.env.get("PATH"))

    def run(self, command: list[str], limit: float) -> subprocess.CompletedProcess:
        """Run a program to its end; past ``limit`` seconds it and its children are killed and CouldNotLook is raised."""
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=dict(self.env),
                start_new_session=True,
            )
        except OSError as error:
            raise CouldNotLook(f"{command[0]}: {error.strerror or error}") from None
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            out, err = _end(process)
            raise Slow(f"{Path(command[0]).name} gave no answer in {limit:g} s", out, err) from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)


class Slow(CouldNotLook):
    """No answer in time; ``out`` and ``err`` are what had come."""

    def __init__(self, message: str, out: str = "", err: str = ""):
        super().__init__(message)
        self.out, self.err = out, err


def _end(process: subprocess.Popen) -> tuple[str, str]:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=1)
    except subprocess.TimeoutExpired:  # stuck in the kernel (a dead network disk): leave it
        return "", ""


class Facts:
    """Facts by name, each looked up in a thread of its own. ``facts[name]`` waits for it, or raises CouldNotLook."""

    def __init__(
        self, looks: Mapping[str, Callable[[], object]], limits: Mapping[str, float] | None = None, limit: float = 6.0
    ):
        self._limits = {name: (limits or {}).get(name, limit) for name in looks}
        self._limit = limit
        self._values: dict[str, object] = {}
        self._threads = {}
        self._started = time.monotonic()
        for name, look in looks.items():
            thread = threading.Thread(target=self._run, args=(name, look), daemon=True, name=f"doctor-{name}")
            self._threads[name] = thread
            thread.start()

    def _run(self, name, look):
        try:
            self._values[name] = look()
        except CouldNotLook as error:
            self._values[name] = error
        except BaseException as error:  # whatever a probe does, the doctor goes on
            self._values[name] = CouldNotLook(one_line(error))

    def __getitem__(self, name):
        thread = self._threads.get(name)
        if thread is not None:
            thread.join(max(0.0, self._started + self._limits[name] - time.monotonic()))
        if name not in self._values:
            raise CouldNotLook(f"no answer in {self._limits.get(name, self._limit):g} s")
        value = self._values[name]
        if isinstance(value, CouldNotLook):
            raise value
        return value

    def get(self, name, default=None):
        try:
            return self[name]
        except CouldNotLook:
            return default


def given(**values) -> Facts:
    """Facts that are known already, for tests; a CouldNotLook among them is raised when it is asked for."""
    facts = Facts({})
    facts._values.update(values)
    return facts


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def size(amount: float) -> str:
    """Bytes as people say them: ``512 MiB``, ``1.5 GiB``."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(amount) >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    unit = units[0]
    return f"{amount:.0f} {unit}" if amount >= 100 or unit == "B" else f"{amount:.1f} {unit}".replace(".0 ", " ")


def count(number: int, word: str) -> str:
    """``1 core``, ``2 cores``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
