"""Trainings of two processes that go wrong on purpose: each ends in bounded time, and its record says which rank is the cause."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from patience import LIMIT, patient

from dlojz.jobs.watch import Progress
from dlojz.system import paths
from dlojz.training import records

SAID = {  # way -> (kind, ranks that are lost, message) as rank 0 tells it
    "unused": ("usage", None, "some parameters had no part in the loss"),
    "uneven": ("lost_rank", [1], "rank 1 had already exited, without an error"),
    "raises": ("lost_rank", [1], r"rank 1 \(process \d+ on .+\) stopped: ValueError: a broken batch"),
    "killed": ("lost_rank", [1], r"rank 1 \(process \d+ on .+\) died without an error message"),
    "hangs": ("lost_rank", [1], r"rank 1 \(process \d+ on .+\) has not moved for \d+ seconds.* of breaks.py"),
}
DONE = {"unused": 1, "uneven": 6, "raises": 2, "killed": 2, "hangs": 2}  # steps that rank 0 has made until then
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
WITH_GPUS = pytest.param("nccl", marks=[pytest.mark.gpu, needs_two])


@pytest.fixture(scope="module", params=["gloo", WITH_GPUS])
def ended(request, tmp_path_factory):
    """All of them at once: way -> (exit code, seconds, record, what it printed)."""
    folder = tmp_path_factory.mktemp(request.param)
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if request.param == "gloo" else {}
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    env |= {"PYTHONPATH": str(paths.PACKAGE.parent), "OMP_NUM_THREADS": "1", **hidden}
    begun, running = time.monotonic(), {}
    for way in SAID:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m",
                   "dlojz.labs.ddp_advanced.breaks", way, "--run-dir", folder / way]
        running[way] = subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = {}
    try:
        for way, process in running.items():
            said, _ = process.communicate(timeout=max(1, LIMIT - (time.monotonic() - begun)))
            found[way] = process.returncode, time.monotonic() - begun, records.read(folder / way), said
    finally:
        for process in running.values():
            process.terminate()  # torchrun ends its processes
    return found


@pytest.mark.long  # the lab's notebook submits them too
@pytest.mark.slow
@pytest.mark.parametrize("way", SAID)
def test_rank_0_says_what_has_happened(ended, way):
    code, seconds, record, said = ended[way]
    kind, lost, message = SAID[way]
    assert code == 1 and seconds < patient(120), said[-2000:]
    [error] = [error for error in record.errors if error["rank"] == 0]
    assert error["kind"] == kind and error.get("lost") == lost and re.search(message, error["message"]), error
    assert error["advice"]
    assert [step["step"] for step in record.steps] == list(range(1, DONE[way] + 1))
    progress = Progress(Path())
    for event in record.events:
        progress.take(event)
    assert (progress.done, progress.total) == (DONE[way], 8)
    if way == "raises":
        assert [other["kind"] for other in record.errors if other["rank"] == 1] == ["exception"]
