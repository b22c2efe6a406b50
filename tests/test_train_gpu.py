"""On a machine with a GPU: a training that is killed and told to stop comes to the same end as one that was left alone.

Not to the last bit, as on the CPU: cuDNN may add in another order. What is not computed there (steps, learning rates, the scaler)
is equal.
"""

import os
import signal
import subprocess
import sys

import pytest
import torch
from test_train_resume import DIES_AT
from training import LIMIT, SCRIPT, TESTS, Training, environment, same

from dlojz.training import records

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
STARTED = """
import runpy, sys, training_models
exec(sys.argv.pop(1))
sys.path.insert(0, {folder!r})
sys.argv[0] = {script!r}
runpy.run_path({script!r}, run_name="__main__")
"""
KINDS = {
    "float32": (),
    "fp16 with its scaler": ("--amp", "fp16", "--clip-grad", 1, "--accumulate", 2),
    "all of day 1 and a loader": ("--tf32", "--amp", "bf16", "--channels-last", "--optimizer", "adamw", "--lr", 0.01, "--fused",
                                  "--num-workers", 2, "--persistent-workers", "--pin-memory", "--non-blocking",
                                  "--schedule", "onecycle"),
    "mixup on the device": ("--augment", "mixup", "--model", "tiny_dropout"),
    "compiled": ("--compile",),
}


def train(folder, data, *argv, before="", code=0):
    """The script in a process of its own: one that was forked could not use the GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    env = environment(**({"CUDA_VISIBLE_DEVICES": visible} if visible else {}))
    if not visible:
        del env["CUDA_VISIBLE_DEVICES"]
    argv = (*Training.COMMON, "--device", "cuda", "--data", data, "--run-dir", folder, *argv)
    started = STARTED.format(folder=str(SCRIPT.parent), script=str(SCRIPT))
    run = subprocess.run([sys.executable, "-c", started, before, *map(str, argv)], env=env, cwd=TESTS, text=True,
                         capture_output=True, timeout=LIMIT)
    assert run.returncode == code, f"exit code {run.returncode}\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}"
    return records.read(folder), torch.load(folder / "checkpoint.pt", weights_only=True)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_stopped_and_resumed(tmp_path, training_images, kind):
    argv = ("-e", 3, "--checkpoint-every", 2, *KINDS[kind])
    straight, expected = train(tmp_path / "straight", training_images, *argv)
    assert straight.start["machine"]["gpu"] and straight.end["status"] == "completed"
    again = (tmp_path / "run", training_images, *argv, "--resume")
    train(*again, before=DIES_AT.format(step=5, signal="SIGKILL"), code=-signal.SIGKILL)
    stopped, _ = train(*again, before=DIES_AT.format(step=9, signal="SIGTERM"), code=75)
    # A GPU's steps are settled late, so that the signal is heard of late, at the end of the epoch at the latest.
    assert stopped.end["status"] == "stopped" and 9 <= stopped.end["steps"] <= 18
    resumed, checkpoint = train(*again)
    assert len(resumed.starts) == 3 and resumed.starts[1]["resumed_at"] == 4 and resumed.end["status"] == "completed"
    assert [step["step"] for step in resumed.steps] == list(range(1, 19))
    assert [step["lr"] for step in resumed.steps] == [step["lr"] for step in straight.steps]
    losses, wanted = ([step["loss"] for step in run.steps] for run in (resumed, straight))
    assert losses == pytest.approx(wanted, rel=0.01)
    same(checkpoint, expected, rounding=2e-3)
