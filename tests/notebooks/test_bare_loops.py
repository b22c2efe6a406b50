"""The bare loop at the end of each lab's notebook: it runs as it is, without the kit, and prints what the lab is about.

Nothing that it prints depends on the machine, but for the device: notebooks hold no outputs to compare, so what is right is here.
"""

import contextlib
import io
import os
import re
import subprocess
import sys

import harness
import pytest
import torch

from dlojz.labs import notebooks, workspace

PRINTED = {
    "gpu": r"weights on (cpu|cuda) images on \1 loss on \1\n",
    "amp": r"weights torch\.float32, outputs torch\.bfloat16, loss torch\.float32\n",
    "channels_last": r"images of shape \(8, 3, 32, 32\) have the strides \(3072, 1, 96, 3\)\n",
    "profiler": r"20 convolutions in each of 2 steps: 40 calls of aten::conv2d\n",
    "dataloader": r"4 batches of 8 images from 2 workers\n",
    "batches": r"parts of 16: 4\d% padding\nparts of 800: [1-4]% padding\n",
    "ddp": r"epoch 0: loss 1\.40 over 64 images\nepoch 1: loss 1\.38 over 64 images\n\n",
    "ddp_advanced": r"the same weights on all ranks: True\n\n",
    "compile": r"1 graph in 3 steps, saved as conv1\.weight\n",
    "optimizers": r"5\.00e-04 1\.00e-03 1\.00e-03 8\.54e-04 5\.00e-04 1\.46e-04 ",
    "memory": r"the same loss: True with a gradient for 4\n",
    "quantize": r"3\.9 times fewer bytes, results change by less than 2 %: True\n",
    "fsdp": r"rank 0 holds 544 of 1088 parameters\n\n",
    "parallelism": r"32 of 64 hidden numbers here, the loss of one process: True\n\n",
    "augmentation": r"the rows of labels add up to \[1\.0\]\n",
    "kernels": r"right to 12 digits: True\n",
    "hpo": r"12 trials, the best is complete\n",
    "own": r"cleared: \[1\.0, 1\.0, 1\.0\]\nnot cleared: \[1\.0, 2\.0, 3\.0\]\n",
    "roofline": r"batch 512: 410 FLOP per byte, .* by arithmetic\nbatch 1: 1 FLOP per byte, .* by memory\n",
}
WRITTEN = "%%writefile "


def notebook_of(lab):
    return next(name for name in workspace.notebooks() if notebooks.lab_of(name) == lab)


def test_each_lab_has_one():
    assert PRINTED.keys() == {notebooks.lab_of(name) for name in workspace.notebooks()} - {None, ""}


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # several that wait for each other on a busy machine take ten times as long
    yield
    torch.set_num_threads(before)


# Loops that start several processes: a notebook's own test runs them, too.
PROCESSES = {"ddp": pytest.mark.slow, "ddp_advanced": pytest.mark.long, "fsdp": pytest.mark.long, "parallelism": pytest.mark.long}


@pytest.mark.parametrize("lab", PROCESSES)
def test_what_starts_processes_says_how_many_threads(lab, monkeypatch):
    """Else torchrun warns, in a red box below the cell."""
    starts = []
    monkeypatch.setattr(subprocess, "run", lambda *_, **options: starts.append(options) or subprocess.CompletedProcess([], 0, ""))
    exec("".join(harness.bare_loop(notebooks.read(notebook_of(lab)))[-1]["source"]), {})
    assert [start["env"]["OMP_NUM_THREADS"] for start in starts] == ["1"]


@pytest.mark.parametrize("lab", [pytest.param(lab, marks=PROCESSES.get(lab, ())) for lab in PRINTED])
def test_prints_what_the_lab_is_about(lab, tmp_path, one_thread):
    found = harness.bare_loop(notebooks.read(notebook_of(lab)))
    assert found, f"the notebook of {lab} has no bare loop"
    loop, *start = ("".join(cell["source"]) for cell in found)
    assert "dlojz" not in loop and "# <-" in loop
    if start:  # several processes, so a file and the command that starts it
        first, loop = loop.split("\n", 1)
        assert first.startswith(WRITTEN)
        (tmp_path / first.removeprefix(WRITTEN)).write_text(loop)
        env = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-c", *start], cwd=tmp_path, env=env, text=True, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        said = done.stdout
    else:
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(loop, lab, "exec"), {})
        said = told.getvalue()
    assert re.fullmatch(PRINTED[lab], said), said
