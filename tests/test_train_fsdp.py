"""train_lm.py --shard: processes with a part each train what processes with a copy each train, and others go on from there."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from dlojz.system.errors import UsageError
from dlojz.training import checkpoint, records
from dlojz.training.distributed import Processes, held
from dlojz.training.sent import kind_of

HOW = ("--accumulate", 2, "--clip-grad", 0.5, "--test")


def test_parts_train_as_copies_do_and_twice_as_many_processes_go_on(language_training):
    """Two runs of parts, one after the other, beside one of copies: with blocks gathered again, then in two replicas."""
    copies = language_training.run_ranks("copies", 2, *HOW, "--test-steps", 6)
    language_training.run_ranks("parts", 2, *HOW, "--test-steps", 4, "--shard", "--checkpoint-every", 2, "--async-save")
    run = language_training.run_ranks("parts", 4, *HOW, "-b", 1, "--test-steps", 6, "--shard", "zero2", "--replicas", 2,
                                      "--prefetch", 1, "--checkpoint-activations", "--resume")
    assert run.record.start["resumed_at"] == 4
    assert [step["step"] for step in run.record.steps] == [1, 2, 3, 4, 5, 6]
    assert [step["loss"] for step in run.record.steps] == pytest.approx([step["loss"] for step in copies.record.steps], rel=1e-4)
    assert run.record.validations[-1]["loss"] == pytest.approx(copies.record.validations[-1]["loss"], rel=1e-4)
    for name in ("bytes_parameters", "bytes_gradients", "bytes_states"):
        assert run.record.end[name] / copies.record.end[name] == pytest.approx(0.5, abs=0.01)
    shares = sorted(path.name for path in run.folder.glob("shares-*"))
    assert shares == ["shares-4"] and len(list((run.folder / "shares-4").glob("*.distcp"))) == 2
    run = language_training.run("parts", *HOW, "-b", 4, "--test-steps", 8, "--shard", "--resume")  # and one process after that
    assert run.record.start["resumed_at"] == 4 and run.record.start["world_size"] == 1
    both = zip(run.record.steps, copies.record.steps)
    assert all(mine["loss"] == pytest.approx(right["loss"], rel=1e-4) for mine, right in both)


def test_a_checkpoint_that_is_still_being_written_is_none_yet(tmp_path):
    """Training goes on; the one before stays whole until then."""
    writing = Future()
    counts = {"updates": 1}
    schedule = SimpleNamespace(state_dict=lambda: counts)
    shares = SimpleNamespace(save=lambda folder: folder.mkdir() or writing)
    place = {"step": 2, "epoch": 0, "position": 2, "same": {}}
    file, old = tmp_path / "checkpoint.pt", tmp_path / "shares-1"
    old.mkdir()
    unfinished = checkpoint.save(file, {"scheduler": schedule}, torch.zeros(2), place, Processes(), records.Writer(), shares)
    counts["updates"] = 2
    assert not unfinished.shares.done() and not file.exists() and old.is_dir()
    writing.set_result(None)
    unfinished.finish()
    assert torch.load(file)["shares"] == "shares-2" and torch.load(file)["scheduler"] == {"updates": 1} and not old.exists()


def test_the_record_says_what_the_shares_took(tmp_path, monkeypatch):
    """And not just the small file beside them: 1 ms for a GB that takes 0.5 s."""
    monkeypatch.setattr(checkpoint.time, "perf_counter", clock := Clock())

    def written(folder):
        folder.mkdir()
        (folder / "__0_0.distcp").write_bytes(bytes(10**6))
        clock.now += 0.5

    record = records.Writer()
    monkeypatch.setattr(record, "write", lambda event, **facts: events.append((event, facts)))
    events, place = [], {"step": 2, "epoch": 0, "position": 2, "same": {}}
    checkpoint.save(tmp_path / "checkpoint.pt", {}, torch.zeros(2), place, Processes(), record, SimpleNamespace(save=written))
    [(event, facts)] = events
    assert event == "checkpoint" and facts["seconds"] == 0.5 and facts["bytes"] - 10**6 in range(1, 50_000)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Shares:
    """Stands for a model of which each process has a part."""

    def __init__(self):
        self.kept = []

    def save(self, folder):
        folder.mkdir()
        self.kept.append(folder.name)

    def load(self, folder):
        self.loaded = folder.name


def saved(tmp_path, shares, step, same):
    place = {"step": step, "epoch": 0, "position": step, "same": same}
    checkpoint.save(tmp_path / "checkpoint.pt", {}, torch.tensor([1.0, 2.0]), place, Processes(), records.Writer(), shares)


def test_a_checkpoint_names_its_shares_and_only_those_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(dist, "get_world_size", lambda: 1)
    shares = Shares()
    for step in (2, 4):
        saved(tmp_path, shares, step, {})
    assert shares.kept == ["shares-2", "shares-4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "shares-4"]
    assert checkpoint.load(tmp_path / "checkpoint.pt", {}, torch.zeros(2), {}, 0, shares)["step"] == 4
    assert shares.loaded == "shares-4"


def test_a_checkpoint_of_copies_is_refused_where_parts_are_wanted(tmp_path):
    saved(tmp_path, None, 2, {})
    with pytest.raises(UsageError, match="each process had the whole model, without --shard"):
        checkpoint.load(tmp_path / "checkpoint.pt", {}, torch.zeros(2), {}, 0, Shares())


@pytest.mark.parametrize("before, after", [(4, 2), (2, 4), (3, 3)])
def test_what_was_not_reduced_yet_is_counted_once(before, after, monkeypatch):
    monkeypatch.setattr(dist, "get_world_size", lambda: after)
    ranks = [{"sums": [1.0 + rank, 10.0], "random": rank} for rank in range(before)]
    found = [checkpoint._of_other_ranks(ranks, rank) for rank in range(after)]
    assert [sum(column) for column in zip(*(one["sums"] for one in found))] == [sum(1.0 + rank for rank in range(before)),
                                                                                10.0 * before]
    assert [one["random"] for one in found] == [rank % before for rank in range(after)]


@pytest.mark.parametrize("switches, said", [
    (("--shard",), "--shard needs more than one process"),
    (("--replicas", 2), "--replicas and --prefetch need --shard"),
    (("--prefetch", 1), "--replicas and --prefetch need --shard")])
def test_switches_that_do_not_go_together(language_training, switches, said):
    assert said in language_training.run("wrong", *switches, code=2).err


def test_bytes_of_what_is_trained():
    net = torch.nn.Linear(10, 10, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.ones(1, 10)).sum().backward()
    optimizer.step()
    assert held(optimizer) == {"bytes_parameters": 400, "bytes_gradients": 400, "bytes_states": 400}


def test_collectives_have_old_and_new_names():
    ops, functional = torch.ops.c10d, torch.ops._c10d_functional
    for operation, kind in ((ops._allgather_base_, "all_gather"), (ops._reduce_scatter_base_, "reduce_scatter"),
                            (functional.all_gather_into_tensor, "all_gather"), (functional.all_reduce_, "all_reduce"),
                            (functional.reduce_scatter_tensor, "reduce_scatter"), (functional.wait_tensor, ""),
                            (torch.ops.aten.add, "")):
        assert kind_of(getattr(operation, operation.overloads()[0])) == kind
