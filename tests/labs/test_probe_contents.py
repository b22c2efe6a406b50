"""What the probe compares: batches and weights with those that there were, gradients with those of float32; and copies."""

import pytest

from dlojz.labs import catalogue, fences
from dlojz.labs.probe import Limits, Probe, Session

PLENTY = Limits(seconds=60)


@pytest.fixture(scope="module")
def host():
    with Session(PLENTY) as session:
        session.ready()
        yield session


@pytest.fixture
def run(host, tmp_path):
    """Runs train.py, the labs of day 1 solved and some fences with other bodies, under the observers."""
    def run(switches, bodies, **options):
        solved = [lab.id for lab in catalogue.labs().values() if lab.place <= catalogue.lab("channels_last").place]
        text = fences.replace(catalogue.laid_out("train.py", solved), bodies)
        (tmp_path / "train.py").write_text(text)
        for name in ("augment.py", "optimizers.py"):
            (tmp_path / name).write_text(catalogue.laid_out(name, solved))
        host.begin(PLENTY)
        facts = Probe(host, tmp_path).run(switches, **options)
        assert facts.completed, f"{facts.ended} {host.text()}"
        return facts

    return run


def test_what_the_model_gets(run):
    changed = "if step == 1:\n    images = images.flip(3)\nif step == 2:\n    labels = labels + 1 - 2 * (labels > 2).long()\n"
    facts = run("--device cpu", {"channels_last.batch": changed + "if step == 3:\n    images, labels = images[:3], labels[:3]"},
                contents=True)
    fed, compared = facts.all("fed"), facts.all("compared")
    assert [event.given for event in fed] == [4, 4, 4, 3] and [event.loaded for event in fed] == [4] * 4
    assert fed[0].difference == 0 and fed[1].difference > 1 and fed[2].difference == 0 and fed[3].difference is None
    assert [event.same for event in compared] == [True, True, False, False]
    assert facts.need("began").difference == 0


@pytest.mark.parametrize("body, same", [
    ("net = net.to(memory_format=torch.channels_last)", True),
    ("with torch.no_grad():\n    net.fc.bias[2] += 0.001", False),
    ("net.fc = nn.Linear(16, 5)", None),
])
def test_what_the_model_begins_with(run, body, same):
    difference = run("--device cpu", {"channels_last.model": body}, contents=True).need("began").difference
    assert difference is None if same is None else (difference == 0) == same


def test_gradients_of_a_group(run):
    """Two batches an update, though this file's lab ddp_advanced is not written: their mean is half of the sum in float32."""
    facts = run("--device cpu --amp fp16", {}, reference=True, group=2)
    updates = facts.all("update")
    assert [update.step for update in updates] == [2, 4]
    assert all(update.norm == pytest.approx(update.reference / 2, rel=0.02) and update.cosine > 0.99 for update in updates)
    assert {backward.group for backward in facts.all("backward")} == {2}


def test_a_backward_pass_is_noted_once(run):
    body = "scaled = loss / group\ntorch.autograd.backward([scaled], [torch.full_like(scaled, 8)], retain_graph=True)"
    facts = run("--device cpu", {"amp.backward": body})
    assert [backward.step for backward in facts.all("backward")] == [1, 2, 3, 4]
    assert all(backward.retains and backward.scale == pytest.approx(8) for backward in facts.all("backward"))


@pytest.mark.parametrize("copy, waits", [
    ("to(device)", True), ("to(device, non_blocking=True)", False), ("to(device, None, True)", False), ("to(sums, True)", False),
    ("cuda()", True), ("cuda(1, True)", False), ("cuda(non_blocking=True)", False),
])
def test_copies_that_do_not_wait(run, copy, waits):
    body = f"images = images.{copy}\nlabels = torch.empty_like(labels, device=device).copy_(labels, {not waits})"
    facts = run("--device cuda", {"gpu.batch": body}, gpus=2, local_rank=1)
    moves = facts.all("move", step=2, target="cuda:1")
    assert [(len(move.shape), move.non_blocking) for move in moves] == [(4, not waits), (1, not waits)]


@pytest.mark.parametrize("use, backs, waits", [
    ("images.float()", 0, 0), ("labels.half()", 0, 0), ("images[0].to(torch.int32)", 0, 0), ("labels.cpu()", 1, 0),
    ("print(labels)", 0, 1), ("torch.cuda.empty_cache()", 0, 1), ("f'{labels[0]}'", 0, 1),
])
def test_what_comes_back_from_a_pretended_gpu(run, use, backs, waits):
    body = f"images = images.to(device)\nlabels = labels.to(device)\nif device.type == 'cuda':\n    {use}"
    facts = run("--device cuda", {"gpu.batch": body}, gpus=2)
    assert len(facts.all("move", step=2, target="cpu", by="own")) == backs
    assert min(1, len(facts.all("sync", step=2, by="own"))) == waits


def test_the_loss_that_is_recorded(run):
    body = "loss = 3 * loss\n(loss / group).backward()"
    recorded = run("--device cpu", {"amp.backward": body}).all("recorded")
    assert [step.step for step in recorded] == [1, 2, 3, 4]
    assert all(step.loss == pytest.approx(3 * step.computed) for step in recorded)
