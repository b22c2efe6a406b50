"""A workspace and a queue of its own for each test, and a check that nothing is left running afterwards."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from patience import LIMIT

from dlojz.jobs import local
from dlojz.system import paths, processes, sites


class Workspace:
    """What a trainee has: a folder with scripts, and the verbs."""

    def __init__(self, folder: Path, queue: Path):
        self.folder = folder
        self.queues = queue  # DLOJZ_QUEUE
        self.queue = local.Queue(queue / socket.gethostname())
        self.queue_folder = self.queue.folder

    def script(self, name: str, text: str) -> str:
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def python(self, text: str, **options) -> subprocess.Popen:
        """A process of its own that does what a notebook's kernel would."""
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def shell(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-m", "dlojz.cli", *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=LIMIT, **options)

    def mine(self) -> list[int]:
        """Everything that runs for this workspace."""
        return [pid for pid in processes.marked(f"DLOJZ_QUEUE={self.queues}") if pid != os.getpid()]

    def supervisors(self) -> list[int]:
        found = []
        for pid in self.mine():
            try:
                if b"dlojz.jobs.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                continue
        return found

    def kill_supervisor(self) -> None:
        until(lambda: self.queue.supervised())
        pids = self.supervisors()
        assert pids
        processes.send(pids, signal.SIGKILL)
        until(lambda: not self.queue.supervised())


def until(true, timeout: float = LIMIT, message: str = "it did not happen in time"):
    """Wait for something to become true, and return it."""
    end = time.monotonic() + timeout
    while not (result := true()):
        assert time.monotonic() < end, message
        time.sleep(0.02)
    return result


@pytest.fixture
def wait_until():
    return until


@pytest.fixture
def ws(tmp_path, monkeypatch):
    folder, queue = tmp_path / "ws", tmp_path / "queue"
    folder.mkdir()
    (folder / "workspace.toml").write_text('version = "test"\n')
    for name in [name for name in os.environ if name.startswith(("DLOJZ_", "SLURM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    monkeypatch.setenv("DLOJZ_QUEUE", str(queue))
    monkeypatch.setenv("DLOJZ_GRACE", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONPATH", str(paths.PACKAGE.parent))
    monkeypatch.chdir(folder)
    made = Workspace(folder, queue)
    made.script("quick.py", "print('hello')")
    made.script("slow.py", "import time; print('begun'); time.sleep(120)")
    yield made
    if made.queue.ids():
        local.cancel(made.queue.ids())
    end = time.monotonic() + LIMIT
    # A supervisor that is just starting shows no environment for a moment, but leaves nothing in the queue when it goes.
    while (left := made.mine()) or made.queue.ids():
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    processes.send(left, signal.SIGKILL)
    assert not left, "something was left running"


@pytest.fixture
def eight_gpus(ws, tmp_path, monkeypatch):
    """A machine with eight GPUs, as far as nvidia-smi can tell."""
    programs = tmp_path / "bin"
    programs.mkdir()
    listing = "\n".join(f"echo 'GPU {number}: Pretended (UUID: GPU-{number})'" for number in range(8))
    (programs / "nvidia-smi").write_text(f"#!/bin/sh\n{listing}\n")
    (programs / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    sites._devices.cache_clear()
    (ws.folder / "torch" / "distributed").mkdir(parents=True)  # a torchrun that starts one process, and at once
    ws.script("torch/__init__.py", "")
    ws.script("torch/distributed/__init__.py", "")
    ws.script("torch/distributed/run.py", """
        import runpy, sys
        sys.argv = sys.argv[3:]
        runpy.run_path(sys.argv[0], run_name="__main__")
        """)
