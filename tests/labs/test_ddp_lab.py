"""The lab ddp beside its check: what its figures say, the script about batch norm, and who waited for whom."""

import json
import os
from types import SimpleNamespace

import pytest
import torch
from ranks import run_ranks

from dlojz.labs import catalogue, fences, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.ddp import figures, runs
from dlojz.labs.ddp.statistics import BatchNormOfAll
from dlojz.labs.goals import Measured, compare
from dlojz.labs.probe import Event, Limits, Session, waiting
from dlojz.labs.probe.facts import ending
from dlojz.system import paths
from dlojz.system.errors import UsageError


def two(command, folder, **more):
    """Two real processes that find each other; what each of them prints. They are ended after two minutes.

    What torch and gloo log under load is not theirs: stderr, and lines such as `[Gloo] …`."""
    env = {"PYTHONPATH": str(paths.PACKAGE.parent), "OMP_NUM_THREADS": "1", "DLOJZ_RUN": str(folder), "DLOJZ_SCALE": "ci",
           "DLOJZ_SITE": "laptop", "CUDA_VISIBLE_DEVICES": ""}
    env |= {name: os.environ[name] for name in ("DLOJZ_CACHE",) if name in os.environ} | more
    said = run_ranks(command, 2, timeout=600, drop=("SLURM", "DLOJZ"), cwd=folder, env=env)
    return ["".join(line for line in printed.splitlines(True) if not line.startswith("[")) for printed, _ in said]


def test_statistics_of_two_processes(tmp_path):
    said, other = two(["-m", "dlojz.labs.ddp.statistics"], tmp_path)
    assert said.count("RANK=0") == 2 and "WORLD_SIZE=2" in said, said  # RANK=0 and LOCAL_RANK=0
    assert not other.strip(), other
    found = json.loads((tmp_path / "statistics.json").read_text())
    alone, ddp, sync = (found["ways"][way] for way in ("alone", "ddp", "sync"))
    assert alone[0] != pytest.approx(alone[1], abs=1e-3)
    assert [sum(pair) / 2 for pair in zip(*alone)] == pytest.approx(found["all"], abs=1e-5)  # equally large batches
    assert ddp[0] == pytest.approx(alone[0], abs=1e-6), "rank 0 hands out its own"
    assert max(abs(one - two) for one, two in zip(*ddp)) < max(abs(one - two) for one, two in zip(*alone))
    for mine in sync:
        assert mine == pytest.approx(found["all"], abs=1e-5)
    view = figures.statistics(SimpleNamespace(folder=tmp_path, run="statistics-001"))
    assert "all processes have the same, and one with all images has it, too" in repr(view)
    assert f"{found['all'][3]:.4f}" in repr(view) and "rank 1, channel 3" in view._repr_html_()
    with pytest.raises(UsageError, match="statistics-002 has left no"):
        figures.statistics(SimpleNamespace(folder=tmp_path / "no", run="statistics-002"))


def test_batch_norm_of_all_is_batch_norm(monkeypatch):
    """With one process, forward, backward and running statistics are those of torch's batch norm."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor: None)
    ours, theirs = BatchNormOfAll(3), torch.nn.BatchNorm2d(3)
    images = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(1)) * 2 + 1
    results = []
    for norm in (ours, theirs):
        x = images.clone().requires_grad_()
        out = norm(x)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        results.append((out, x.grad, norm.weight.grad, norm.running_mean, norm.running_var))
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_two_processes_with_nothing_written_train_and_say_so(tmp_path):
    for name in ("train.py", "optimizers.py", "augment.py", "loading.py", "heads.py"):
        if catalogue.reference(name).exists():
            (tmp_path / name).write_text(catalogue.laid_out(name))
    said, other = two(["train.py", "--test", "--test-steps", "2", "--data", "random", "--checkpoint-every", "1"], tmp_path)
    assert "todo: ddp is not written yet" in said and "validation after step 2" in said
    assert "todo" not in other


def test_shares_are_those_of_the_sampler():
    lines = repr(figures.shares(11, 2, 2)).splitlines()
    dealt = [[int(word) for word in line.split(":")[1].split()] for line in lines if "rank" in line]
    assert len(dealt) == 12 and [len(part) for part in dealt] == [5] * 8 + [6] * 4
    for one, two_ in zip(dealt[:8:2], dealt[1:8:2]):
        assert len({*one, *two_}) == 10
    assert dealt[0] != dealt[2] and dealt[4] == dealt[6], "without set_epoch the epochs are alike"
    assert sum("twice" in line for line in lines) == 2 and sum("waits for another epoch" in line for line in lines) == 2
    assert sum("is left out each time" in line for line in lines) == 2, "and without set_epoch it never has its turn"


def test_rates():
    text = repr(figures.rates(64, (1, 4), 1_281_167))
    assert "20,018" in text and "0.025" in text and "5,004" in text and "0.1" in text.split("4 ")[-1]


@pytest.mark.parametrize("gpus, counts, by_two", [
    (0, (1, 2, 4), {"gpus": 2}), (1, (1, 2, 4), {"gpus": 0, "processes": 2}), (2, (1, 2), {"gpus": 2}),
    (4, (1, 2, 4), {"gpus": 2})])
def test_runs_for_a_machine(gpus, counts, by_two, monkeypatch):
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    monkeypatch.setattr(runs.sites, "gpus", lambda: list(range(gpus)))
    here = runs.together()
    assert here.counts == counts and here.by(2) == by_two and here.run in repr(here)
    assert ("--device cpu" in here.run) == (gpus == 1)


def test_the_goal_compares_two_processes_with_one():
    goal = catalogue.lab("ddp").goal
    setting = {"model": "resnet50", "image size": 224, "processes": 1, "device": "H100"}
    one = Measured("ddp_one-001", 1.0, "gpu", 1000.0, setting)
    assert compare(goal, Measured("ddp-001", 2.0, "gpu", 1900.0, setting | {"processes": 2}), one).state == "reached"
    assert compare(goal, Measured("ddp-001", 2.0, "gpu", 1500.0, setting | {"processes": 2}), one).state == "not reached"
    assert compare(goal, Measured("ddp-001", 2.0, "gpu", 1900.0, setting | {"device": "A100"}), one).state == "not comparable"
    slowed = Measured("ddp_one-002", 1.0, "gpu", 500.0, setting, disturbed="1 step of 40 took up to 6.6 s")
    disturbed = compare(goal, Measured("ddp-001", 2.0, "gpu", 1900.0, setting | {"processes": 2}), slowed)
    assert disturbed.state == "not measured" and "but in ddp_one-002 1 step of 40 took up to 6.6 s" in disturbed.text
    laptop = compare(goal, Measured("ddp-001", 2.0, "laptop", 900.0, setting | {"processes": 2}), one)
    assert laptop.state == "no goal" and "share its speed" in laptop.text


# ------------------------------------------------------------------------------------------------------------- who waited


class Rank:
    """The facts of one process, as a check reads them."""

    def __init__(self, how, message="", line=None, calls=(), done=0):
        self.ended = ending({"file": "train.py", "line": line}, how, message)
        self.completed = how == "completed"
        self.facts = {"collective.call": [Event(call=call, file="train.py", line=at) for call, at in calls],
                      "collective.done": [Event(call=call) for call, _ in calls[:done]]}

    def all(self, what):
        return self.facts[what]


def judged(*ranks):
    return waiting.in_vain(SimpleNamespace(ranks=ranks, said="`train.py`"))


TIMED_OUT = "stops with RuntimeError: Timed out waiting 8000ms for recv operation to complete"


def test_both_ended():
    assert judged(Rank("completed"), Rank("completed")) is None


def test_one_waits_for_one_that_has_ended():
    first = Rank("error", "stops with RuntimeError: Connection closed by peer", 7, [("all_reduce", 7)])
    saw, _, look = judged(first, Rank("completed"))
    assert saw == "`train.py`: rank 0 waits in `all_reduce` (line 7) for rank 1, which has ended: it never called it"
    assert look.line == 7


def test_two_wait_for_each_other():
    first = Rank("error", TIMED_OUT, 9, [("all_reduce", 9)])
    second = Rank("error", TIMED_OUT, 5)
    assert "rank 0 waits in `all_reduce` (line 9) for rank 1, which waits, too, in line 5" in judged(first, second)[0]
    saw, _, look = judged(second, first)
    assert "rank 0 waits in line 5 for rank 1" in saw and look.line == 9, "the call that one alone makes"


def test_one_that_gloo_ended_and_one_that_was_ended_by_the_probe():
    aborted = Rank("signal", "was killed by the signal SIGABRT", None, [("all_reduce", 9)])
    assert "rank 0 waits in `all_reduce` (line 9)" in judged(aborted, Rank("alone", "waited", 5))[0]
    timed = Rank("time", "was still running after 20 seconds", 4, [("barrier", 4)])
    assert "rank 1 waits in `barrier` (line 4) for rank 0, which has ended" in judged(Rank("completed"), timed)[0]


def test_an_error_of_one_is_said_and_not_that_the_other_waits():
    broken = Rank("error", "stops with TypeError: no", 3)
    assert judged(Rank("error", TIMED_OUT, 9, [("all_reduce", 9)]), broken) is None
    endless = Rank("time", "was still running after 20 seconds", 3)
    assert judged(endless, endless) is None, "a loop without an end is no wait"


def test_a_rank_that_hangs_is_named_and_nothing_is_left_of_it(tmp_path):
    workspace.create(tmp_path, ["ddp"])
    wrong = next(each for each in catalogue.answers(catalogue.lab("ddp")) if each.name == "statistics_from_itself")
    (tmp_path / "train.py").write_text(fences.replace((tmp_path / "train.py").read_text(), wrong.fences, "train.py"))
    with Session(Limits(seconds=60)) as session:
        outcome = run_check("ddp", tmp_path, Limits(seconds=60), session)
        assert outcome.state == "WRONG" and "waits in `broadcast`" in outcome.message, outcome
        assert not session.descendants()
