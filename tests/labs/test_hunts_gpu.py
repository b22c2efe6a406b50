"""On a machine with several GPUs: the hunts' scripts print with NCCL what they print with gloo, where the checks run them."""

import os
import subprocess
import sys

import pytest
import torch
from patience import LIMIT

from dlojz.labs.fsdp_hunt.check import agree
from dlojz.system import paths

HUNTS = paths.PACKAGE / "reference" / "hunt"
pytestmark = [pytest.mark.gpu, pytest.mark.spread, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")]


SEEDED = "import runpy, sys, torch\ntorch.manual_seed(1)\nrunpy.run_path(sys.argv[1], run_name='__main__')\n"


def printed(script, folder, **env):
    folder.mkdir()
    (folder / "seeded.py").write_text(SEEDED)  # not all of them begin with the same model each time
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")} | env
    env |= {"PYTHONPATH": str(paths.PACKAGE.parent), "OMP_NUM_THREADS": "1", "DLOJZ_RUN": str(folder)}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*torchrun, "seeded.py", script], env=env, cwd=folder, text=True, capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("script", sorted(path.name for path in HUNTS.glob("*dp_[1-6].py")))
def test_prints_the_same(script, tmp_path):
    with_gpus = printed(HUNTS / script, tmp_path / "nccl")
    without = printed(HUNTS / script, tmp_path / "gloo", CUDA_VISIBLE_DEVICES="")
    assert without and len(with_gpus) == len(without), with_gpus
    assert all(agree(*pair) for pair in zip(with_gpus, without)), f"{with_gpus}\n{without}"
