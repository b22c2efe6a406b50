"""train_lm.py as it is run: alone, with two processes, stopped and resumed, and what its record says."""

import ast
import math
import sys

import pytest
import torch
from torch.utils.data import DistributedSampler
from training import LANGUAGE, same, same_training

from dlojz.data import texts
from dlojz.jobs import runs
from dlojz.views.dashboard import dashboard

sys.path.insert(0, str(LANGUAGE.parent))
import lm

sys.path.pop(0)


def test_it_learns_and_its_record_counts_tokens(language_training):
    run = language_training.run("one", "-e", 4, "--mask-documents", "--clip-grad", 1)
    record = run.record
    assert record.start["unit"] == "tokens" and record.start["length"] == 16 and record.start["epoch_images"] == 37 * 16
    assert {step["images"] for step in record.steps} == {32} and len(record.steps) == 4 * 18
    assert "accuracy" not in record.steps[0]
    found = record.validations[-1]
    assert found["loss"] < record.validations[0]["loss"] - 0.5 and found["images"] == 6 * 16
    assert found["bits"] == pytest.approx(found["loss"] / math.log(2))
    assert record.start["flops_per_image"] == 6 * record.start["parameters"] + 12 * 5 * 128 * 16
    assert "tokens/s" in run.out and "images" not in run.out and "bits per token" in run.out
    shown = repr(dashboard(runs.of_folder(run.folder)))
    assert "tokens/s" in shown and "bits per token" in shown and "image" not in shown and "TFLOP/s" in shown


@pytest.mark.parametrize("script", ["train.py", "train_lm.py"])
def test_no_step_waits_for_the_gpu(script):
    """A number that is read, or one that is made on the host and copied, waits for all that the GPU has to do."""
    tree = ast.parse((LANGUAGE.parent / script).read_text(encoding="utf-8"))
    train = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "train")
    steps = [node for node in ast.walk(train) if isinstance(node, ast.For) and ast.unparse(node.iter).startswith("train_loader")]
    assert len(steps) == 1
    called = {ast.unparse(node.func) for node in ast.walk(steps[0]) if isinstance(node, ast.Call)}
    waits = {"item", "tolist", "cpu", "numpy", "nonzero", "tensor", "new_tensor", "as_tensor", "synchronize", "bool", "float"}
    assert not {name for name in called if name.rpartition(".")[2] in waits}


def test_resumed_after_a_stop_it_comes_to_the_same_end(language_training):
    """To the last bit: the order of rows, the optimizer, the schedule."""
    how = ("-e", 2, "--checkpoint-every", 3, "--schedule", "cosine", "--accumulate", 2)
    straight = language_training.run("straight", *how)
    stop = "import os, signal\nimport dlojz.training.records as r\n" \
           "r.listeners.append(lambda event, fields: event == 'step' and seen.append(1) or len(seen) == 7 " \
           "and event == 'step' and os.kill(os.getpid(), signal.SIGTERM))\nseen = []"
    stopped = language_training.run("stopped", *how, before=f"globals()['seen'] = []\n{stop}", code=75)
    assert stopped.record.end["status"] == "stopped"
    run = language_training.run("stopped", *how, "--resume")
    assert run.record.start["resumed_at"] in (8, 9)
    same_training(run, straight)


def test_a_checkpoint_of_other_sizes_is_refused(language_training):
    language_training.run("one", "--test", "--test-steps", 2, "--checkpoint-every", 1)
    run = language_training.run("one", "--test", "--test-steps", 4, "--resume", "--length", 8, code=2)
    assert "was written with length 16, not 8" in run.err


def test_two_processes_average_the_gradients_of_their_rows(language_training):
    run = language_training.run_ranks("two", 2, "--optimizer", "sgd", "--wd", 0, "--clip-grad", 0.5, "--test", "--test-steps", 1,
                                      "--checkpoint-every", 1)
    assert run.record.steps[0]["images"] == 2 * 2 * 16
    torch.manual_seed(1)
    net = lm.Transformer(lm.shape("1m", 64, 16))
    train = texts.Tokens(language_training.data, "train", 16)
    order = [iter(DistributedSampler(train, 2, rank, seed=1, drop_last=True)) for rank in range(2)]
    rows = torch.stack([train[next(part)] for part in order for _ in range(2)])
    loss = net(rows[:, :-1], rows[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    with torch.no_grad():
        for weight in net.parameters():
            weight -= 0.003 * weight.grad
    assert run.record.steps[0]["loss"] == pytest.approx(loss.item(), rel=1e-5)
    same(run.checkpoint["model"], net.state_dict(), rounding=1e-5)


@pytest.mark.parametrize("wrong, said", [
    (("--length", 0), "--length must be at least 1"),
    (("--vocabulary", 20), "--vocabulary 20 is less than the 32 different tokens"),
    (("--data", "random", "--mask-documents"), "--mask-documents needs documents"),
    (("--length", 700), "a row takes 701: use a smaller --length"),
    (("-b", 40), "37 rows per process are not one batch of 40"),
    (("--model", "2m"), "1m, 10m, 124m"),
])
def test_what_cannot_work_is_refused_in_one_line(language_training, wrong, said):
    run = language_training.run("wrong", *wrong, code=2)
    assert said in run.err.replace("'", "") and "Traceback" not in run.err
