"""The audit on scripts that are right, on the same with planted faults, and on those of libraries: what it says of each.

The verdicts are those of somebody who has read the scripts; where there is no GPU, what only a GPU would show is not seen.
"""

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from patience import LIMIT, patient

from dlojz import cli
from dlojz.labs import audit, catalogue, notebooks
from dlojz.labs.audit import child, folder, judge, ranks, right, sheet
from dlojz.labs.audit.judge import NOT_APPLICABLE, NOT_USED, UNSEEN, USED, WRONG
from dlojz.labs.audit.seen import Seen
from dlojz.labs.probe.facts import Event
from dlojz.system import paths
from dlojz.training import tracing

SCRIPTS = Path(__file__).with_name("audited")
GPU_ONLY = ("mixed precision", "TF32", "channels-last", "torch.compile", "steps without waits", "fused optimizer",
            "loader workers", "pinned memory, asynchronous copies", "tensors made where they are used")
FINE = {"gradients cleared once per update": USED, "losses kept without their graphs": USED, "mean over samples": UNSEEN}
RIGHT = {  # what is not named: not applicable, but GPU_ONLY: could not be seen
    "classify.py": {"validation without gradients": USED, "train mode in training": USED, "schedule after the update": USED,
                    "norms and biases without decay": NOT_USED, "loader workers": NOT_APPLICABLE},
    "scaled.py": {"validation without gradients": UNSEEN, "train mode in training": UNSEEN, "mixed precision": USED,
                  "random numbers of its own for each worker": USED, "clipping after unscaling": USED,
                  "schedule after the update": USED, "backward pass outside of autocast": USED,
                  "another order in each epoch": USED, "norms and biases without decay": USED, "fused optimizer": USED,
                  "loader workers": USED, "channels-last": NOT_APPLICABLE},
    "adversarial.py": {"validation without gradients": UNSEEN, "train mode in training": USED,
                       "channels-last": NOT_APPLICABLE, "loader workers": NOT_APPLICABLE,
                       "pinned memory, asynchronous copies": NOT_APPLICABLE},
    "words.py": {"validation without gradients": USED, "train mode in training": USED, "TF32": USED, "torch.compile": USED,
                 "compiled once": USED, "whole graphs": USED, "channels-last": NOT_APPLICABLE, "loader workers": NOT_APPLICABLE,
                       "pinned memory, asynchronous copies": NOT_APPLICABLE},
    "with_trainer.py": {"validation without gradients": USED, "train mode in training": USED, "schedule after the update": USED,
                        "backward pass outside of autocast": USED, "mixed precision": USED, "channels-last": NOT_APPLICABLE,
                        "norms and biases without decay": USED, "fused optimizer": USED},
    "with_accelerate.py": {"validation without gradients": USED, "train mode in training": USED, "mixed precision": USED,
                           "schedule after the update": USED, "backward pass outside of autocast": USED,
                           "channels-last": NOT_APPLICABLE, "norms and biases without decay": NOT_USED,
                           "loader workers": NOT_APPLICABLE},
    # Lightning validates, and steps the schedule, after whole epochs, and the audit ended this one early.
    "with_lightning.py": {"validation without gradients": UNSEEN, "train mode in training": USED,
                          "schedule after the update": UNSEEN,
                          "backward pass outside of autocast": USED, "mixed precision": USED, "channels-last": NOT_APPLICABLE,
                          "loader workers": NOT_APPLICABLE},
    "with_timm.py": {"validation without gradients": USED, "train mode in training": USED, "clipping after unscaling": USED,
                     "backward pass outside of autocast": USED, "mixed precision": USED, "channels-last": USED,
                     "fused optimizer": NOT_APPLICABLE, "norms and biases without decay": USED,
                     "loader workers": NOT_APPLICABLE},
    "augmented.py": {
        "validation without gradients": USED, "mean over samples": USED, "random numbers of its own for each worker": USED,
        "torch.compile": USED, "compiled once": USED, "whole graphs": USED, "channels-last": NOT_APPLICABLE,
        "loader workers": USED if len(os.sched_getaffinity(0)) > 1 else NOT_USED},
    "several.py": {
        "validation without gradients": USED, "train mode in training": USED, "another order in each epoch": USED,
        "mean over samples": NOT_APPLICABLE, "samples of its own for each rank": USED, "checkpoints from one rank": USED,
        "a GPU for each rank": USED, "validation counts each sample once": USED, "validation over all ranks": USED,
        "accumulation without sending": USED, "tensors made where they are used": USED, "steps without waits": USED,
        "pinned memory, asynchronous copies": USED, "mixed precision": NOT_USED, "TF32": NOT_USED, "torch.compile": NOT_USED,
        "fused optimizer": NOT_USED, "loader workers": NOT_APPLICABLE, "channels-last": NOT_APPLICABLE},
}
for script in RIGHT:
    if script.startswith("with_"):  # all their batches of validation have the same size
        RIGHT[script]["mean over samples"] = NOT_APPLICABLE
RANKS = {"several.py": 2}  # with a pretended GPU for each
NEEDS = {"with_trainer.py": "transformers", "with_accelerate.py": "accelerate", "with_lightning.py": "lightning",
         "with_timm.py": "timm"}
FAULTS = {  # by script: what is changed in it, and what becomes of the verdicts, with the text of the line that is named
    "never cleared, graphs kept": ("classify.py", {
        "        optimizer.zero_grad()\n": "", "running += loss.detach()": "running += loss",
        "        scheduler.step()\n": "        print(loss.item())\n",
        "    with torch.no_grad():\n": "    with torch.enable_grad():\n"},
        {"gradients cleared once per update": (WRONG, "optimizer.step()"),
         "losses kept without their graphs": (WRONG, "running += loss"),
         "validation without gradients": (WRONG, "loss_of(model(images), labels).item()"),
         "steps without waits": (NOT_USED, "print(loss.item())"),
         "schedule after the update": (UNSEEN, "")}),
    "cleared too early": ("classify.py", {
        "        optimizer.zero_grad()\n": "", "        optimizer.step()\n        scheduler.step()\n":
        "        optimizer.zero_grad()\n        scheduler.step()\n        optimizer.step()\n",
        "running += loss.detach()": "kept.append(loss)", "lr=1e-3": "lr=1e-3, foreach=False",
        "    model.train()\n": "    epoch or model.train()\n"},
        {"gradients cleared once per update": (WRONG, "optimizer.step()"), "train mode in training": (WRONG, "optimizer.step()"),
         "losses kept without their graphs": (WRONG, "kept.append(loss)"),
         "schedule after the update": (WRONG, "scheduler.step()"), "fused optimizer": (NOT_USED, "optimizer.step()")}),
    "clipped while scaled, and the losses before it are summed": ("scaled.py", {
        "        scaler.unscale_(optimizer)\n": "", "    sampler.set_epoch(epoch)\n": "    total = 0.0\n",
        "        optimizer.zero_grad()\n": "        optimizer.zero_grad()\n        total += loss\n",
        "        scaler.scale(loss).backward()\n": "            scaler.scale(loss).backward()\n"},
        {"clipping after unscaling": (WRONG, "clip_grad_norm_"), "backward pass outside of autocast": (WRONG, ".backward()"),
         "losses kept without their graphs": (WRONG, "total += loss"), "another order in each epoch": (WRONG, "DataLoader(")}),
    "the same numbers, a mean of means, a break": ("augmented.py", {
        "torch.initial_seed() % 2**32": "7", " * len(y)": "", "len(val.dataset)": "len(val)",
        "(self, x):\n": "(self, x):\n        self.calls += 1\n        if x.sum() > 1e9:\n            x = x * 2\n"},
        {"random numbers of its own for each worker": (WRONG, "DataLoader("), "mean over samples": (WRONG, "print("),
         "compiled once": (NOT_USED, "def forward"), "whole graphs": (NOT_USED, "x.sum()")}),
    "each rank as if it were alone": ("several.py", {
        "sampler=DistributedSampler(data, shuffle=True), pin": "shuffle=True, generator=torch.Generator(), pin",
        "    train.sampler.set_epoch(epoch)\n": "", 'rank = int(os.environ["LOCAL_RANK"])': "rank = 0", "range(20)": "range(19)",
        "    dist.all_reduce(found)\n": "", "contextlib.nullcontext() if number % 2 == 0 else model.no_sync()":
        "contextlib.nullcontext()", "torch.ones(4, device=rank)": "torch.ones(4).to(rank)",
        "        if number % 2 == 0:\n": "        if number % 2 == 0 and loss.item():\n",
        "x.to(rank, non_blocking=True), y.to(rank, non_blocking=True)": "x.to(rank), y.to(rank)"},
        {"samples of its own for each rank": (WRONG, "model(x)"), "checkpoints from one rank": (WRONG, "torch.save"),
         "a GPU for each rank": (WRONG, "model(x)"), "validation counts each sample once": (NOT_USED, "DataLoader("),
         "validation over all ranks": (NOT_USED, "DataLoader("), "another order in each epoch": (UNSEEN, ""),
         "mean over samples": (UNSEEN, ""), "accumulation without sending": (NOT_USED, "optimizer.step()"),
         "tensors made where they are used": (NOT_USED, "torch.ones(4)"), "steps without waits": (NOT_USED, "loss.item()"),
         "pinned memory, asynchronous copies": (NOT_USED, "x.to(rank)")}),
}


def ran(script: Path, monkeypatch, tmp_path, *arguments: str) -> audit.Audit:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    several = RANKS.get(script.name, 1)
    return audit.audit(script, arguments, seconds=patient(60), ranks=several, pretend=several > 1)


def expected(script: str) -> dict:
    return {name: UNSEEN if name in GPU_ONLY else NOT_APPLICABLE for name in judge.TECHNIQUES} | FINE | RIGHT[script]


@pytest.mark.parametrize("script", [name for name in RIGHT if name != "scaled.py"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="the verdicts are those of a machine without a GPU")
def test_right_scripts(script, monkeypatch, tmp_path):
    if script in NEEDS and importlib.util.find_spec(NEEDS[script]) is None:
        pytest.skip(f"{NEEDS[script]} is not installed")
    found = ran(SCRIPTS / script, monkeypatch, tmp_path)
    assert found.ran, found.ended
    assert {one.technique: one.verdict for one in found.findings} == expected(script), found.view().text
    assert found.code == 0 and not found.left and not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.skipif(torch.cuda.is_available(), reason="the verdicts are those of a machine without a GPU")
def test_planted_faults(fault, monkeypatch, tmp_path):
    name, changes, verdicts = FAULTS[fault]
    text = (SCRIPTS / name).read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    script = tmp_path / name
    script.write_text(text)
    found = ran(script, monkeypatch, tmp_path)
    assert found.ran, found.ended
    by_name = {one.technique: one for one in found.findings}
    wanted = expected(name) | {technique: verdict for technique, (verdict, _) in verdicts.items()}
    assert {technique: one.verdict for technique, one in by_name.items()} == wanted, found.view().text
    lines = text.splitlines()
    for technique, (_, of_line) in verdicts.items():
        assert not of_line or of_line in lines[by_name[technique].line - 1], by_name[technique]
    assert found.code == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="the verdicts are those of a machine without a GPU")
def test_losses_are_the_same_to_the_last_bit(monkeypatch, tmp_path):
    """With dropout, noise from a worker, autocast in bfloat16 and a scaler."""
    script, (alone, watched) = SCRIPTS / "scaled.py", (tmp_path / "alone.txt", tmp_path / "watched.txt")
    found = ran(script, monkeypatch, tmp_path, str(watched))
    assert {one.technique: one.verdict for one in found.findings} == expected("scaled.py"), found.view().text
    assert found.code == 0 and not list((tmp_path / "work").iterdir())
    subprocess.run([sys.executable, script, alone], check=True, timeout=LIMIT, cwd=tmp_path)
    ours, theirs = watched.read_text().split(), alone.read_text().split()
    assert len(ours) == 11 and len(set(ours)) == 11  # the audit ends within the 12th update
    assert ours[:5] == theirs[:5]  # then the first epoch was ended
    assert found.left == [str(watched)] and "still there" in found.view().text


def moded(*steps: str) -> list[Event]:
    """Facts of a run with one model, 1, and a part of it, 2: "train", "eval", "part.eval" call for a mode; "check" is a pass
    without gradients; "a" and "b" are updates, each by a line of its own; "freeze" takes gradients from some weights."""
    model, frozen, found = {1: True, 2: True}, 0, []
    facts = {"kind": "Net", "parameters": {"float32": 4}, "devices": {"cpu": 4}, "weights": {}, "settings": {"Dropout(p=0.1)": 1}}
    for step in steps:
        if step.endswith(("train", "eval")):
            of, mode = 2 if step.startswith("part") else 1, step.endswith("train")
            model |= {of: mode} if of == 2 else {1: mode, 2: mode}
            found.append(Event(what="mode", of=of, training=mode))
        elif step == "freeze":
            frozen += 1
        else:
            checked = step == "check"
            found.append(Event(what="model", of=1, training=model[1], grad=not checked, frozen=frozen, **facts))
            if not checked:
                where = {"file": "a.py", "line": ord(step)}
                found += [Event(what="backward", **where), Event(what="passed", **where)]
    return found


EPOCH = ("a", "a", "eval", "check", "check")
MODES = {  # what a script does, and whether that can have been meant
    "forgotten": (("train", *EPOCH, *EPOCH, "a"), WRONG),
    "never in train mode again, though it asks for it at first": (("train", *EPOCH, "a", "a", "a"), WRONG),
    "as it should be": (("train", *EPOCH, "train", *EPOCH), USED),
    "no validation yet": (("train", "a", "a"), UNSEEN),
    "on purpose, after each validation": (("train", *EPOCH, "eval", *EPOCH, "eval", *EPOCH), UNSEEN),
    "on purpose, once and for all": (("train", *EPOCH, "eval", "a", "a", "a", "eval", "check", "a", "a", "a"), UNSEEN),
    "a backbone alone": (("train", *EPOCH, "train", "part.eval", *EPOCH, "train", "part.eval", "a"), USED),
    "other weights, in a phase of its own": (("train", *EPOCH, "b", "b", "b"), UNSEEN),
    "frozen": (("train", *EPOCH, "freeze", "a", "a", "a"), UNSEEN),
    "in eval mode from the beginning": (("eval", "a", "check", "a", "a"), UNSEEN),
}


@pytest.mark.parametrize("case", MODES)
def test_eval_mode_is_wrong_only_where_nobody_can_have_meant_it(case):
    steps, verdict = MODES[case]
    assert right.trains(Seen(moded(*steps)))[0] == verdict


def fed(seconds: float, step: float, gpu: bool = True, cut_out: bool = False, optimizer: str = "SGD") -> list[Event]:
    """Facts of a run whose loader, without workers, gives a batch after so many seconds, in steps of ``step`` seconds."""
    made = {"of": 7, "num_workers": 0, "pin_memory": False, "line": 3, "file": "a.py"}
    model = {"kind": "Net", "frozen": 0, "parameters": {}, "weights": {}, "settings": {}}
    model["devices"] = {"cuda:0" if gpu else "cpu": 2}
    update = {"optimizer": optimizer, "has_fused": True, "which": 0, "groups": [], "watched": 0, "alive": 0}
    found = [Event(what="flags", products="highest", gpu=gpu, cores=2), Event(what="loader", number=0, **made)]
    for number in range(4):
        place = {"loader": 0, "epoch": 0, "batch": number}
        found += [Event(what="batch.indices", **place), Event(what="waited", of=7, seconds=seconds, cut_out=cut_out, **place),
                  Event(what="model", training=True, grad=True, **model),
                  Event(what="passed", clock=number * step, passes=number, **update)]
    return found


WAITS = {  # of a loader without workers: verdict, what is said, whether our number of a slow loader stands beside it
    "a fifth of a step": (fed(0.1, 0.5), NOT_USED, "100 ms, 20% of a step in this run", True),
    "little of it": (fed(0.01, 0.5), NOT_USED, "10.0 ms, 2% of a step in this run", False),
    "nothing": (fed(0.0005, 0.5), NOT_APPLICABLE, "0.50 ms, 0.1% of a step: workers would bring little", False),
    "short steps": (fed(0.0005, 0.001), NOT_USED, "0.50 ms, 50% of a step", True),
    "tensors in memory": (fed(0.1, 0.5, cut_out=True), NOT_APPLICABLE, "cut out of tensors that are in memory", False),
    "no GPU": (fed(0.1, 0.5, gpu=False), UNSEEN, "used no GPU", True),
}


@pytest.mark.parametrize("case", WAITS)
def test_workers_are_advised_by_what_the_script_s_own_run_shows(case):
    events, verdict, said, beside = WAITS[case]
    one = next(one for one in judge.judge(events) if one.technique == "loader workers")
    assert (one.verdict, bool(one.brings)) == (verdict, beside) and said in one.evidence


@pytest.mark.parametrize(("optimizer", "beside"), [("AdamW", True), ("SGD", False)])
def test_what_fusing_brought_adamw_is_not_said_of_another_optimizer(optimizer, beside):
    one = next(one for one in judge.judge(fed(0.1, 0.5, optimizer=optimizer)) if one.technique == "fused optimizer")
    assert one.verdict == NOT_USED and bool(one.brings) == beside


@pytest.mark.parametrize("stays", [False, True])
def test_validation_is_judged_also_where_it_builds_graphs(stays):
    """``stays``: the model stays in eval mode, and it is the loader that tells a validation from the training."""
    def event(what, **facts):
        return Event(what=what, kind="Net", frozen=0, parameters={"float32": 4}, settings={}, **facts)

    def fed(loader, training, value, count):
        return [event("waited", loader=loader), event("model", training=training, grad=True),
                event("loss", training=True, value=value, target={"shape": [count]})]

    events = []
    for epoch in range(2):
        for _ in range(3):
            events += [*fed(0, epoch == 0 or not stays, 9.0, 30), event("backward"), event("passed")]
        events += fed(1, False, 1.0, 30) + fed(1, False, 4.0, 10) + [event("printed", numbers=["2.5000"])]
    assert right.validates(Seen(events))[:1] == (WRONG,)
    verdict, said, _ = right.means(Seen(events))
    assert verdict == WRONG and "Over the samples it is 1.7500" in said


def test_passes_in_eval_mode_that_two_loaders_feed_one_update_are_no_validation():
    """Pairs of batches of either loader, and one backward pass through all of them."""
    facts = {"kind": "Net", "frozen": 0, "parameters": {"float32": 4}, "settings": {}}
    fed = [Event(what="model", training=False, grad=True, **facts)] * 2
    events = [Event(what="model", training=True, grad=True, **facts), Event(what="backward"), Event(what="passed")]
    for _ in range(6):
        events += [Event(what="waited", loader=0), *fed, Event(what="waited", loader=1), *fed,
                   Event(what="backward"), Event(what="passed")]
    assert right.validates(Seen(events))[0] == UNSEEN


@pytest.mark.parametrize("derived, verdict", [(True, UNSEEN), (False, WRONG)])
def test_a_validation_that_asks_for_derivatives_needs_its_graphs(derived, verdict):
    """As forces are, which a model of an energy gives by torch.autograd.grad."""
    facts = {"grad": True, "kind": "Net", "frozen": 0, "parameters": {"float32": 4}, "settings": {}}
    update = [Event(what="model", training=True, **facts), Event(what="backward"), Event(what="passed")]
    checks = [Event(what="model", training=False, **facts), *([Event(what="derived")] * derived)] * 3
    assert right.validates(Seen((update * 3 + checks) * 2))[0] == verdict


def shuffled(*steps: str) -> list[Event]:
    """Facts of passes over loaders of one data set: a number is a pass in that order of an optimizer that updates by it, "look 1"
    one without updates, "by 1 1" one of the optimizer 1, "half 1" one of which the next has given a batch before it ended; "told
    1" a call of set_epoch of the DistributedSampler, "other 1" of another sampler's; "new" is a new loader with a new sampler,
    "loader" one with the same; "set" and "plain" are loaders of another data set, and with a sampler of another kind."""
    found, loader, sampler, data, half = [], -1, 4, 1, []
    passed = 0
    for step in ("new", *steps):
        whom, *numbers = step.split()
        if step in ("new", "loader", "set", "plain"):
            loader, sampler, data = loader + 1, sampler + (step != "loader"), data + (step == "set")
            kind = "RandomSampler" if step == "plain" else "DistributedSampler"
            found.append(Event(what="loader", number=loader, samplers=[kind], sampled_by=[sampler], of=data))
        elif whom in ("told", "other"):
            found.append(Event(what="set_epoch", of=sampler if whom == "told" else 99, epoch=int(numbers[0])))
        else:
            place = {"loader": loader, "epoch": (passed := passed + 1), "batch": 0}
            order = [((1 if whom == "sorted" else 7) * index + int(step.split()[-1])) % 13 for index in range(13)]
            found += [Event(what="batch.indices", indices=order, **place), Event(what="waited", **place)]
            if whom != "look":
                found += [Event(what="backward"), Event(what="passed", which=int(numbers[0]) if whom == "by" else 0)]
            found, half = found + half, [Event(what="waited", **place)] if whom == "half" else []
    return found


ONE = "may be of one epoch"
SHUFFLES = {
    "never told": (("0", "0"), WRONG, "was not told"),
    "told the same number, perhaps of a pass that the audit ended early": (("told 0", "0", "told 0", "0"), UNSEEN, "same number"),
    "told when the pass had begun": (("0", "told 0", "0", "told 1", "1"), WRONG, "when the pass had begun"),
    "told": (("told 0", "0", "told 1", "1"), USED, "another order"),
    "two passes in one epoch": (("told 0", "0", "0", "told 1", "1", "1"), USED, "another order"),
    "two passes in one epoch, and no other": (("told 0", "0", "other 1", "0"), UNSEEN, ONE),
    "one": (("told 0", "0"), UNSEEN, "no second epoch"),
    "never told, a loader made anew": (("0", "loader", "0"), WRONG, "was not told"),
    "never told, a loader and a sampler made anew": (("0", "new", "0"), WRONG, "was not told"),
    "told too late, both made anew": (("0", "told 0", "new", "0", "told 1"), WRONG, "when the pass had begun"),
    "told, a loader made anew": (("told 0", "0", "loader", "told 1", "1"), USED, "another order"),
    "told, both made anew": (("told 0", "0", "new", "told 1", "1"), USED, "another order"),
    "both made anew, with another seed": (("0", "new", "1"), USED, "another order"),
    "told the same number, both made anew": (("told 0", "0", "new", "told 0", "0"), UNSEEN, "same number"),
    "one of two samplers told": (("told 0", "0", "new", "0"), UNSEEN, ONE),
    "a data set for each epoch": (("0", "set", "0"), UNSEEN, "another data set"),
    "a look before": (("look 0", "0"), UNSEEN, "no second epoch"),
    "a look at each loader, and validations": (("look 0", "0", "new", "look 2", "look 2"), UNSEEN, "no second epoch"),
    "looks alone": (("look 0", "look 0"), UNSEEN, "did not show"),
    "an evaluation between, never told": (("0", "look 0", "0"), WRONG, "was not told"),
    "another training": (("0", "by 1 0"), UNSEEN, "no second epoch"),
    "two loaders at a time": (("half 0", "loader", "0"), UNSEEN, "no second epoch"),
    "another kind of sampler trains": (("look 0", "plain", "0", "0"), UNSEEN, "did not show"),
    "in the order of the data": (("sorted 0", "sorted 0"), NOT_APPLICABLE, "does not shuffle"),
}


@pytest.mark.parametrize("case", SHUFFLES)
def test_orders_of_epochs(case):
    steps, verdict, said = SHUFFLES[case]
    found = right.shuffles(Seen(shuffled(*steps)))
    assert found[0] == verdict and said in found[1]


def test_a_number_is_not_given_again(facts):
    """As an id is, when its object is gone."""
    numbers = [facts.which(torch.nn.Linear(1, 1)) for _ in range(9)] + [facts.which([number]) for number in range(9)]
    kept = object()
    assert len(set(numbers)) == 18 and facts.which(kept) == facts.which(kept)


UPDATE = ("backward", "passed")
SCHEDULES = {
    "after each update": ((*UPDATE, "stepped"), {}, USED),
    "at the top of the loop": (("stepped", *UPDATE), {}, UNSEEN),
    "at the top of the loop, with the epoch": (("stepped", *UPDATE), {"told": True}, USED),
    "between": (("backward", "stepped", "passed"), {}, WRONG),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_where_a_schedule_is_stepped(case):
    steps, facts, verdict = SCHEDULES[case]
    events = [Event(what=step, which=0, file="a.py", line=len(step), **facts) for step in steps * 4]
    assert right.schedules(Seen(events))[0] == verdict
    if case == "after each update":  # a resumed script catches up first, on a line of its own
        assert right.schedules(Seen([Event(what="stepped", which=None, file="a.py", line=1), *events]))[0] == USED


def test_a_limit_that_clips_nothing_is_not_called_a_scaler_that_is_off():
    def run(enabled):
        facts = {"asked": True, "enabled": enabled}
        return Seen([Event(what="backward"), Event(what="clipping", limit=1e9), Event(what="scaling", call="step", **facts)])

    assert "so high that it clips nothing" in right.clips(run(True))[1] and "was off" in right.clips(run(False))[1]


def test_random_numbers_that_a_data_set_holds_are_made_anew_there():
    assert "get_worker_info().dataset.rng = …" in right.mend("dataset.rng") and "dataset" not in right.mend("numpy")


def test_what_keeps_graphs_is_named_with_the_line_that_fills_it(tmp_path):
    """Sums, lists and attributes; one loss alone, or numbers of it, keep nothing of others."""
    weight = torch.ones(2, requires_grad=True)
    losses = [(weight * number).sum() for number in range(3)]
    for loss in losses:
        loss.grad_fn.metadata["dlojz"] = child.Mark()
    assert [len(child.Watch.marks_in(value)) for value in (sum(losses), {1: losses[0], 2: losses[1]})] == [3, 2]
    for value in (losses[0], [loss.item() for loss in losses], "text", None):
        assert len(child.Watch.marks_in(value)) < 2
    script = tmp_path / "a.py"
    script.write_text("kept = []\nself.seen = 0\nkept.append(loss)\nself.seen += loss\ntotal = total + loss\n")
    assert [child.filled(str(script), name) for name in ("kept", "net.seen", "total", "other")] == [3, 4, 5, None]


@pytest.fixture
def facts(tmp_path):
    """The log of an audit of project/tools/a.py, started in project."""
    (tmp_path / "project" / "tools").mkdir(parents=True)
    return child.Facts(str(tmp_path / "facts.jsonl"), str(tmp_path / "project" / "tools" / "a.py"), str(tmp_path / "stands_in"),
                       str(tmp_path / "project"))


def test_packages_of_a_script_are_its_own_and_installed_ones_are_not(facts, tmp_path):
    own = {"project/tools/a.py": "a.py", "project/tools/nets/deep/vit.py": "nets/deep/vit.py", "project/lib/engine.py":
           "../lib/engine.py", "stands_in/lib/engine.py": "../lib/engine.py"}
    for file, name in own.items():
        assert facts.is_own(str(tmp_path / file)) and facts.name(str(tmp_path / file)) == name
    for file in ("elsewhere/b.py", "project/.venv/lib/c.py", "project/env/site-packages/d.py", "project/<frozen e>"):
        assert not facts.is_own(str(tmp_path / file))
    assert not any(map(facts.is_own, (torch.__file__, audit.__file__, os.__file__, pytest.__file__)))


def test_what_a_module_of_the_script_keeps_is_found_when_a_library_holds_it(facts, tmp_path, monkeypatch):
    script = tmp_path / "project" / "tools" / "net.py"
    script.write_text("import torch\n\n\nclass Net(torch.nn.Module):\n    def keep(self, loss):\n"
                      "        self.seen.append(loss)\n")
    spec = importlib.util.spec_from_file_location("kept_by_a_net", script)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "kept_by_a_net", module)
    spec.loader.exec_module(module)
    net, weight = module.Net(), torch.ones(2, requires_grad=True)
    net.seen = []
    for number in range(3):
        loss = (weight * number).sum()
        loss.grad_fn.metadata["dlojz"] = child.Mark()
        net.keep(loss)
    watch = child.Watch(facts, 12, None)
    assert watch.keeper() == {"name": "Net.seen", "file": "net.py", "line": 6}


def test_a_pass_is_ended_only_where_the_script_is_ready_for_it(facts):
    """A loop is, also one in another's code; a bare next() is not."""
    text = """
def bare(it): return [next(it) for _ in (1, 2)]
def loop(it): shape = next(iter((1,))); return [1 for number, batch in enumerate(it)]
def generator(it):
    first = next(iter((1,)))
    yield from it
def all_of(it): return list(generator(it))
def ready(it):
    try:
        return next(it)
    except StopIteration:
        return None
"""
    own, other = {}, {}
    exec(compile(text, str(Path(facts.root) / "a.py"), "exec"), own)
    exec(compile(text, "/a/library.py", "exec"), other)
    watch, said = child.Watch(facts, 12, None), []

    class Loader:
        def __iter__(self):
            return self

        def __next__(self):
            said.append(watch.may_end(sys._getframe(1)))
            raise StopIteration

    for functions, name in [(own, "bare"), (own, "loop"), (own, "all_of"), (own, "ready"), (other, "bare")]:
        with contextlib.suppress(StopIteration):
            functions[name](Loader())
    assert said == [False, True, True, True, True]


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request):
    """A signal that ends a process, also where the tests run under nohup."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_time_limit_and_a_closed_terminal_end_it_as_an_exit_that_cleans_up(number):
    with pytest.raises(SystemExit) as ended, ranks.places(1):
        signal.raise_signal(number)
    assert ended.value.code == 128 + number and signal.getsignal(number) == signal.SIG_DFL


def test_what_nohup_ignores_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with ranks.places(1):
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_IGN


def test_a_text_in_place_of_an_exit_code_is_said(capsys):
    codes = [tracing.exit_code(SystemExit(code)) for code in (None, 0, 3, "no data")]
    assert codes == [0, 0, 3, 1] and capsys.readouterr().err == "no data\n"


ENDS = {
    "arguments": ("import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data')\nparser.parse_args()",
                  "It needs other arguments"),
    "network": ("import urllib.error\nraise urllib.error.URLError('no host')", "It needs a network"),
    "data": ("open('images.bin')", "It needs data that is not there"),
    "package": ("import a_package_that_nobody_has", "Install the package"),
    "nothing": ("print('hello')", "ended by itself before its first update"),
}


def test_a_script_that_cannot_be_run(monkeypatch, tmp_path, capsys):
    """The first in a process; what the others leave, as facts."""
    script = tmp_path / "needs.py"
    script.write_text(ENDS["arguments"][0])
    monkeypatch.chdir(tmp_path)
    assert cli.main(["audit", "--json", str(script)]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["code"] == 2 and not said["ran"] and ENDS["arguments"][1] in said["ended"] and "data" in said["ended"]
    assert cli.main(["audit", "nobody.py"]) == 2 and "no script nobody.py" in capsys.readouterr().err
    assert cli.main(["audit", "--updates", "3", str(script)]) == 2
    capsys.readouterr()
    assert cli.main(["audit", str(script), "--html", "page.html"]) == 2  # it would go to the script, and no page be written
    said = capsys.readouterr().err
    assert "dlojz audit --html" in said and f"dlojz audit -- {script} --html page.html" in said
    script.write_text("parser.add_argument('--html')")
    for command in ([str(script), "--html=page.html", "--epochs", "1"], [str(script), "--json"]):
        given = ["--", *command] if "--json" in command else command
        assert audit.own_command("audit", given) == command


@pytest.mark.parametrize("kind", ["network", "data", "package"])
def test_says_what_a_script_lacks(kind):
    with pytest.raises(Exception) as caught, contextlib.redirect_stdout(io.StringIO()):
        exec(ENDS[kind][0])
    events = [Event(what="error", line=3, file="a.py", kind=type(caught.value).__name__, message=str(caught.value), step=0,
                    kinds=[one.__name__ for one in type(caught.value).__mro__], frames=["a.py"]), Event(what="end", code=1)]
    found = audit._audit("a.py", [events], 1, "", 9.0, "/own")
    assert ENDS[kind][1] in found.ended and "a.py:3" in found.ended and found.code == 2 and not found.findings


def test_ends_are_told_apart():
    assert ENDS["nothing"][1] in audit._audit("a.py", [[Event(what="end", code=0)]], 0, "", 9.0, "/own").ended
    assert "9 seconds were over" in audit._audit("a.py", [[]], None, "", 9.0, "/own").ended
    assert "code -11" in audit._audit("a.py", [[]], -11, "", 9.0, "/own").ended


def test_its_folder_reads_what_is_there_and_keeps_what_is_written(tmp_path):
    """Links become files of their own before they are written to; folders above are there, too."""
    here, beside = tmp_path / "a" / "here", tmp_path / "a" / "data"
    (here / "deep").mkdir(parents=True)
    beside.mkdir()
    for file in (here / "old.txt", here / "deep" / "old.txt", beside / "read.txt"):
        file.write_text("as it was")
    own = folder.stand_in(here, tmp_path / "own")
    assert (own / ".." / "data" / "read.txt").read_text() == "as it was"
    for file in ("old.txt", "deep/old.txt"):
        folder.own(own / file, str(tmp_path / "own"))
        with open(own / file, "a") as opened:
            opened.write(", and more")
        assert (own / file).read_text() == "as it was, and more" and (here / file).read_text() == "as it was"


def test_a_page_and_labs_that_exist(tmp_path, monkeypatch):
    model = {"kind": "Net", "grad": True, "parameters": {"float32": 2}, "weights": {}, "settings": {}, "frozen": 0}
    events = [Event(what="flags", products="highest", gpu=True, cores=2)]
    events.append(Event(what="model", training=True, devices={"cuda:0": 2}, step=1, line=1, file="a.py", **model))
    findings = judge.judge(events)
    assert {one.lab for one in findings} <= set(catalogue.labs())
    assert next(one for one in findings if one.technique == "TF32").verdict == NOT_USED
    script = tmp_path / "a.py"
    script.write_text("import torch\nloss = model(x) < 3\n" + "x" * 200)
    findings.append(judge.Finding("mine", WRONG, "seen", 2, str(script), lab="gpu", docs="https://docs.pytorch.org/"))
    page = audit.Audit("a.py", findings, "It ended.", True, 9, False, []).view().save(tmp_path / "audit.html").read_text()
    assert "could not be seen" in page and "Where we measured it, it brought 1.1" in page
    tf32 = page[page.index("<b>TF32"):].split("</tr>")[0]
    notebook = notebooks.name_of(catalogue.lab("gpu"))
    assert f'href="{notebook}"' in tf32 and 'href="https://docs.pytorch.org/docs/stable/notes/cuda.html"' in tf32
    assert sheet.source(judge.Finding("mine", WRONG, "seen", 3, str(script))) == "x" * (sheet.WIDE - 2) + " …"
    monkeypatch.chdir(tmp_path)  # below the folder: as JupyterLab opens it
    assert 'href="a.py#line=1"' in sheet.table(findings[-1:])
    assert f'href="{script.as_uri()}"' in page and "<code>loss = model(x) &lt; 3</code>" in page
    assert paths.share("notebooks", notebook).is_file()


@pytest.mark.parametrize("numbers, told", [([0, 1], True), ([0, 0], False), ([], False), ([3], False)])
def test_lab_own_sees_in_its_whole_run_that_epochs_counted_from_steps_go_on(numbers, told):
    """A Trainer's `state.epoch` is 0 in both epochs of an audit, which ends the first one early."""
    from dlojz.labs.own.check import tells_epochs

    events = [SimpleNamespace(of="sampler 1", epoch=number) for number in numbers]
    assert tells_epochs(SimpleNamespace(all=lambda kind: events if kind == "set_epoch" else [])) is told


@pytest.mark.parametrize("package, said", [
    ("raise ModuleNotFoundError('none', name='transformers')", "needs transformers, which is not installed"),
    ("try:\n    import nobody_has_it\nexcept ImportError as missing:\n    raise RuntimeError('Failed to import') from missing",
     "cannot import the Trainer of transformers (ModuleNotFoundError: No module named 'nobody_has_it')"),
    ("class Trainer: pass\nTrainingArguments = Trainer", "needs accelerate, which is not installed"),
])
def test_lab_own_says_why_there_is_no_trainer(package, said, monkeypatch, tmp_path):
    from dlojz.labs.own.check import no_trainer

    (tmp_path / "transformers.py").write_text(package)
    (tmp_path / "accelerate.py").write_text("raise ModuleNotFoundError('none', name='accelerate')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert no_trainer().startswith(f"own/with_trainer.py {said}")
