"""Runs of the training script for the tests: started by a server that has torch imported already (see training_server.py)."""

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from patience import LIMIT
from PIL import Image

from dlojz.labs.probe import reserved_port
from dlojz.training import records

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SCRIPT = ROOT / "dlojz" / "reference" / "train.py"
LANGUAGE = SCRIPT.with_name("train_lm.py")


def until(true, timeout: float = LIMIT, message: str = "it did not happen in time"):
    """Wait for something to become true, and return it."""
    end = time.monotonic() + timeout
    while not (result := true()):
        assert time.monotonic() < end, message
        time.sleep(0.005)
    return result


def make_images(root: Path, train: int, val: int, classes=("cat", "dog"), size=(24, 20)) -> Path:
    """``train`` and ``val`` small JPEG files in two folders each, every one different."""
    for split, count in (("train", train), ("val", val)):
        for name in classes:
            (root / split / name).mkdir(parents=True)
        for n in range(count):
            generator = torch.Generator().manual_seed(1000 * n + (split == "val"))
            pixels = torch.randint(0, 256, (4, 5, 3), dtype=torch.uint8, generator=generator)
            pixels[..., n % len(classes)] //= 2  # something to learn
            image = Image.fromarray(pixels.numpy()).resize(size, Image.Resampling.BICUBIC)
            image.save(root / split / classes[n % len(classes)] / f"{n:03}.jpg", quality=95)
    return root


def environment(**more: str) -> dict[str, str]:
    """Nothing of a surrounding job, of a workspace or of a site; one thread, since the machine has few cores."""
    unwanted = ("SLURM_", "PMIX_", "DLOJZ_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "CUDA_VISIBLE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | {"PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}", "DLOJZ_SITE": "laptop", "OMP_NUM_THREADS": "1",
                   "CUDA_VISIBLE_DEVICES": "", "MASTER_ADDR": "127.0.0.1"} | more


@dataclass
class Run:
    """A training that was started: its folder, its process, what it printed and its exit code once it has ended."""

    folder: Path
    pid: int
    out_file: Path
    err_file: Path
    server: "Server"

    @property
    def code(self) -> int | None:
        return self.server.codes.get(self.pid)

    def wait(self, timeout: float = LIMIT) -> "Run":
        try:
            until(lambda: self.code is not None, timeout, f"{self.folder} did not end in {timeout} s")
        except AssertionError:
            self.kill()
            raise
        return self

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def signal_group(self, number: int) -> None:
        """The process and its loader's workers, as Slurm does it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> "Run":
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        until(lambda: self.code is not None)
        self.signal_group(signal.SIGKILL)  # what is left of its workers
        return self

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        return self.err_file.read_text()

    @property
    def record(self) -> records.Record:
        return records.read(self.folder)

    @property
    def losses(self) -> dict[int, tuple]:
        return {step["step"]: (step.get("loss"), step.get("accuracy"), step["lr"]) for step in self.record.steps}

    @property
    def checkpoint(self) -> dict:
        return torch.load(self.folder / "checkpoint.pt", weights_only=True)


class Server:
    """The process that forks runs."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, TESTS / "training_server.py"], text=True, env=environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.ids = itertools.count()
        self.codes: dict[int, int] = {}
        self.pids: queue.Queue = queue.Queue()
        self.running: set[int] = set()
        self.ready = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            answer = json.loads(line)
            if "code" in answer:
                self.codes[answer["pid"]] = answer["code"]
                self.running.discard(answer["pid"])
            elif "id" in answer:
                self.codes.pop(answer["pid"], None)  # the number of an earlier one
                self.running.add(answer["pid"])
                self.pids.put(answer["pid"])
            else:
                self.ready.set()

    def start(self, folder: Path, argv, env=None, before="", log="", cwd=None, script=SCRIPT) -> Run:
        until(lambda: self.ready.is_set() or self.process.poll() is not None)
        assert self.ready.is_set(), "the server did not start: see its error above"
        folder.mkdir(parents=True, exist_ok=True)
        out, err = (folder.parent / f"{folder.name}{log}.{kind}" for kind in ("out", "err"))
        request = {"id": next(self.ids), "argv": [str(script), *map(str, argv)], "env": env or {}, "before": before,
                   "out": str(out), "err": str(err), "cwd": str(cwd or folder.parent)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Run(folder, self.pids.get(timeout=LIMIT), out, err, self)

    def close(self) -> None:
        for pid in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait(10)


class Training:
    """What a test uses to run the script in its own folder: ``training.run("name", "--switches")``.

    ``data`` are the images of most tests: 24 to train on and 10 to validate. Each run gets ``COMMON`` before its own arguments.
    """

    COMMON = ("--model", "tiny", "--image-size", 16, "-b", 4, "--lr", 0.05)
    script = SCRIPT

    def __init__(self, server: Server, tmp: Path, data: Path):
        self.server, self.tmp, self.data = server, tmp, data
        self.started: list[Run] = []
        self.ports = contextlib.ExitStack()

    def start(self, name: str, *argv, data=None, env=None, before="", log="") -> Run:
        folder = self.tmp / name
        argv = [*self.COMMON, "--data", data or self.data, "--run-dir", folder, *argv]
        run = self.server.start(folder, argv, env, before, log, script=self.script)
        self.started.append(run)
        return run

    def run(self, name: str, *argv, code: int | None = 0, **how) -> Run:
        run = self.start(name, *argv, **how).wait()
        assert code is None or run.code == code, f"exit code {run.code}\n{run.out[-3000:]}\n{run.err[-3000:]}"
        return run

    def start_ranks(self, name: str, world: int, *argv, before="", env=None, **how) -> list[Run]:
        """``world`` processes that find each other as those of torchrun do. ``before`` may be one text for each."""
        before = [before] * world if isinstance(before, str) else before
        if world == 1:
            return [self.start(name, *argv, before=before[0], env=env, **how)]
        env = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(self.ports.enter_context(reserved_port())), **(env or {})}
        return [self.start(name, *argv, before=before[rank], log=f".{rank}" if rank else "", **how,
                           env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)]

    def run_ranks(self, name: str, world: int, *argv, code: int | None = 0, **how) -> Run:
        """Waits for all of them; returns the first, which has the record."""
        ranks = self.start_ranks(name, world, *argv, **how)
        for run in ranks:
            run.wait()
            assert code is None or run.code == code, f"exit code {run.code}\n{run.out[-3000:]}\n{run.err[-3000:]}"
        return ranks[0]

    def close(self) -> None:
        for run in self.started:
            if run.code is None:
                run.kill()
            run.signal_group(signal.SIGKILL)
        self.ports.close()


class LanguageTraining(Training):
    """The same for train_lm.py; ``data`` are tokens."""

    COMMON = ("--model", "1m", "--length", 16, "-b", 2, "--lr", 0.003)
    script = LANGUAGE


def make_tokens(folder: Path, train: int = 600, val: int = 100) -> Path:
    """A set of ``train`` and ``val`` tokens below 32, in documents of 3 to 12: the first token tells the others."""
    folder.mkdir()
    (folder / "manifest.json").write_text('{"vocabulary": 32, "separator": 31}')
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", train), ("val", val)):
        tokens: list[int] = []
        while len(tokens) < count:
            length, first = torch.randint(3, 12, (2,), generator=generator).tolist()
            tokens += [31, *((first * 2**n + n) % 31 for n in range(length))]
        (folder / f"{split}.bin").write_bytes(torch.tensor(tokens[:count], dtype=torch.uint16).numpy().tobytes())
    return folder


def same(one, other, where="", rounding: float = 0.0) -> None:
    """Assert that two nested structures are equal to the last bit, or their floating tensors but for ``rounding``."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            same(one[key], other[key], f"{where}.{key}", rounding)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for number, (a, b) in enumerate(zip(one, other)):
            same(a, b, f"{where}[{number}]", rounding)
    elif isinstance(one, torch.Tensor) and one.is_floating_point() and rounding:
        assert torch.allclose(one, other, rtol=rounding, atol=rounding), f"{where} differs by {(one - other).abs().max()}"
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), f"{where} differs"
    else:
        assert one == other, where


def same_training(run: Run, straight: Run) -> None:
    """Assert that an interrupted training came to the same end as one that was not, to the last bit."""
    assert run.losses == straight.losses
    compared = ("step", "epoch", "loss", "accuracy", "bits", "images")
    kept, expected = ([[v.get(name) for name in compared] for v in of.record.validations] for of in (run, straight))
    assert kept == expected
    assert run.record.end["status"] == straight.record.end["status"] == "completed"
    same(run.checkpoint, straight.checkpoint)
