"""A checkpoint of something else is told in one sentence, which names the file and what is different."""

import copy
import pickle
import re

import pytest
import torch

from dlojz.system.errors import UsageError
from dlojz.training import checkpoint, records
from dlojz.training.distributed import Processes

SAME = {"model": "resnet18", "processes": 1}


def parts_of(net=None, optimizer=torch.optim.SGD, scaled=False):
    net = net or torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    steps = optimizer(net.parameters(), lr=0.1)
    return {"model": net, "optimizer": steps, "scheduler": torch.optim.lr_scheduler.LambdaLR(steps, lambda step: 1.0),
            "scaler": torch.amp.GradScaler("cpu", enabled=scaled)}


@pytest.fixture
def saved(tmp_path):
    """The file of a checkpoint, and what is in it."""
    parts = parts_of()
    parts["model"](torch.ones(2, 4)).sum().backward()
    parts["optimizer"].step()
    place = {"step": 3, "epoch": 0, "position": 3, "same": SAME}
    file = tmp_path / "checkpoint.pt"
    checkpoint.save(file, parts, torch.tensor([1.0, 2.0, 3.0]), place, Processes(), records.Writer())
    return file, torch.load(file, weights_only=True)


def load(file, parts=None):
    sums = torch.zeros(3)
    place = checkpoint.load(file, parts or parts_of(), sums, SAME, 0)
    return place, sums.tolist()


def test_what_was_saved_comes_back(saved):
    file, content = saved
    parts = parts_of()
    place, sums = load(file, parts)
    assert place["step"] == 3 and sums == [1.0, 2.0, 3.0]
    assert torch.equal(parts["model"][0].weight, content["model"]["0.weight"])


def named(state, prefix):
    return {f"{prefix}{name}": value for name, value in state.items()}


def without(content, *path):
    content = copy.deepcopy(content)
    inner = content
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return content


def place(content, **changed):
    return content | {"place": content["place"] | changed}


OTHER_FILES = {
    "weights alone": (lambda good: good["model"], "it holds the weights of a model alone"),
    "a recipe's": (lambda good: {"model": good["model"], "optimizer": good["optimizer"], "epoch": 3},
                   "it has no scheduler, no scaler"),
    "no scaler": (lambda good: without(good, "scaler"), "it has no scaler"),
    "no place": (lambda good: without(good, "place"), "it has no place"),
    "no step": (lambda good: without(good, "place", "step"), "its place does not say where the training was"),
    "a step that is text": (lambda good: place(good, step="3"), "its place does not say where the training was"),
    "a negative step": (lambda good: place(good, step=-3), "its place does not say where the training was"),
    "a place that is a list": (lambda good: good | {"place": [1]}, "its place does not say where the training was"),
    "ranks that are none": (lambda good: good | {"ranks": None}, "its ranks are no list"),
    "no rank": (lambda good: good | {"ranks": []}, "was written by no processes, and has nothing for rank 0"),
    "sums of another length": (lambda good: good | {"ranks": [good["ranks"][0] | {"sums": [0.0]}]}, "1 sums, not 3"),
    "sums that are text": (lambda good: good | {"ranks": [good["ranks"][0] | {"sums": "abc"}]}, "its ranks cannot be restored"),
    "no random numbers": (lambda good: good | {"ranks": [good["ranks"][0] | {"random": torch.zeros(3)}]},
                          "its random numbers cannot be restored"),
    "a model that is a tensor": (lambda good: good | {"model": torch.zeros(2)}, "its model is a Tensor"),
    "from DDP": (lambda good: good | {"model": named(good["model"], "module.")}, "names begin with module. in the file"),
    "compiled": (lambda good: good | {"model": named(good["model"], "_orig_mod.")}, "names begin with _orig_mod. in the file"),
    "another shape": (lambda good: good | {"model": good["model"] | {"0.weight": torch.zeros(5, 3)}},
                      "is of another model: 0.weight is 5x3 float32 in the file and 3x4 float32 here"),
    "another type": (lambda good: good | {"model": good["model"] | {"0.weight": torch.zeros(3, 4).half()}},
                     "0.weight is 3x4 float16 in the file and 3x4 float32 here"),
    "another layer": (lambda good: good | {"model": good["model"] | {"2.bias": torch.zeros(3)}},
                      "2.bias is 3 float32 in the file and missing here"),
    "a layer less": (lambda good: without(good, "model", "1.bias"), "1.bias is missing in the file and 3 float32 here"),
    "another optimizer": (lambda good: good | {"optimizer": parts_of(optimizer=torch.optim.Adam)["optimizer"].state_dict()},
                          "is of another optimizer: it has amsgrad, betas"),
    "an optimizer of fewer": (lambda good: good | {"optimizer": parts_of(torch.nn.Linear(4, 3))["optimizer"].state_dict()},
                              "is of another optimizer: it is for 2 parameters, and for 4 here"),
    "an optimizer without groups": (lambda good: without(good, "optimizer", "param_groups"),
                                    "it has no groups of parameters, and 1 here"),
    "a list": (lambda good: [1, 2], "it holds a list"),
    "nothing": (lambda good: None, "it holds a NoneType"),
}


@pytest.mark.parametrize("what", OTHER_FILES)
def test_a_checkpoint_of_something_else(saved, what):
    file, content = saved
    change, why = OTHER_FILES[what]
    torch.save(change(content), file)
    with pytest.raises(UsageError, match=f"^{re.escape(str(file))} .*{re.escape(why)}") as refused:
        load(file)
    assert "\n" not in str(refused.value) and "another --run-dir" in str(refused.value)


def test_a_scaler_that_was_off(saved):
    with pytest.raises(UsageError, match=r"checkpoint.pt does not fit this script: its scaler cannot be restored"):
        load(saved[0], parts_of(scaled=True))


class Other:
    """Something that a pickle may hold."""


DAMAGED = {
    "empty": (lambda whole: b"", r"\(it is empty\)"),
    "cut": (lambda whole: whole[: len(whole) // 2], r"\(its end is missing, or it is damaged\)"),
    "noise": (lambda whole: b"\x1b[31mnoise" * 100, r"\(it is not a file that torch.save has written\)"),
    "text": (lambda whole: b"hello\n", r"\(it is not a file that torch.save has written\)"),
    "a web page": (lambda whole: b"\n<html>404</html>", r"\(it is a web page, perhaps of a failed download\)"),
    "a pointer": (lambda whole: b"version https://git-lfs.github.com/spec/v1\n", r"\(it is Git LFS's pointer to the file: .*\)"),
    "an object": (lambda whole: pickle.dumps(Other()), r"\(it holds objects of Python and not their state alone\)"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file(saved, what):
    change, why = DAMAGED[what]
    saved[0].write_bytes(change(saved[0].read_bytes()))
    with pytest.raises(UsageError, match=rf"checkpoint.pt cannot be read {why}: delete it to start again") as refused:
        load(saved[0])
    assert "\n" not in str(refused.value)


def test_a_whole_model_is_no_state(saved):
    torch.save(torch.nn.Linear(2, 2), saved[0])
    with pytest.raises(UsageError, match=r"it holds objects of Python, such as torch.nn.modules.linear.Linear, and not"):
        load(saved[0])


def test_a_folder(saved):
    saved[0].unlink()
    saved[0].mkdir()
    with pytest.raises(UsageError, match=r"cannot be read \(Is a directory\)"):
        load(saved[0])
