"""What the notebook about optimizers shows: bytes of states, steps to a loss, and the sizes of its runs."""

import pytest

from dlojz.labs.optimizers import figures, updates
from dlojz.system.errors import UsageError
from dlojz.training.records import Record


def run(batch, losses):
    start = {"event": "start", "time": 1.0, "model": "small_resnet", "image_size": 32, "global_batch": batch, "args": {}}
    return Record([start, *({"event": "step", "step": at, "loss": loss, "images": batch} for at, loss in enumerate(losses, 1))])


def test_states_by_hand():
    said = str(figures.states(7_000_000_000))
    rows = {row.rsplit(None, 3)[0].strip(): row.split()[-3:] for row in said.split("\n")[2:]}
    assert rows["adamw"] == ["56.0", "56.0", "16"] and rows["lion"] == rows["sgd"] == ["56.0", "28.0", "12"]
    assert rows["sgd, no momentum"][-1] == "8"


def test_what_is_said_of_states_is_what_optimizers_keep():
    import torch

    rows = updates.update(torch.device("cpu"), 20_000, side=32)
    kept = {row["optimizer"]: round(row["state_bytes_per_parameter"]) for row in rows if row["ms"]}
    assert {name: kept[name] for name in kept} == {name: figures.STATE[name] for name in kept} and len(kept) == 7


def test_steps_to_a_loss_are_counted_as_in_the_record():
    found = figures.reached(run(1024, [4.0, 2.0, 0.0, 0.0]), 1.0)
    assert (found.batch, found.steps, found.ran) == (1024, 3, 4)
    assert figures.reached(run(4096, [4.0, 0.9]), 1.0).steps == 2
    assert figures.reached(run(64, [4.0, 2.0]), 1.0).steps is None


def test_ones_own_runs_are_beside_the_record():
    view = figures.regimes(run(64, [2.0] * 40 + [0.5] * 40), run(256, [3.0]), target=1.0, optimizers=("sgd",))
    mine = [row.split() for row in str(view).split("\n")[-2:]]
    assert mine[0][1:3] == ["64", "62"] and mine[1][1:5] == ["256", "not", "in", "1"]  # 22 of 32 losses have to be 0.5
    assert f"{62 * 64:,}" == mine[0][3]
    assert ">your runs<" in view.page and "half the steps" in view.page
    with pytest.raises(UsageError, match=r"target=0.7: the record has the steps to 1.5, 1, 0.5"):
        figures.regimes(target=0.7)


def test_the_critical_batch_is_where_steps_are_twice_the_fewest():
    size, fewest = figures.critical([(batch, 50 * (1 + 400 / batch)) for batch in (32, 128, 512, 2048)])
    assert (size, fewest) == (pytest.approx(400), pytest.approx(50))


def test_without_a_record_it_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_record", lambda suite: None)
    assert "python -m dlojz.benchmarks.day3 update" in str(figures.recorded_update())
    assert "python -m dlojz.benchmarks.day3 batches" in str(figures.rules())
    assert "no record of a GPU is here" in str(figures.regimes(run(4096, [0.5])))


@pytest.mark.parametrize("scale", ["ci", "laptop", "gpu", "cluster"])
def test_the_runs_see_enough_images_for_a_mean(scale):
    here = figures.sized(scale=scale)
    steps = int(here.run.split("--test-steps ")[1].split()[0])
    assert "--data tiny" in here.run and here.large_batch > here.batch
    assert scale == "ci" or steps * here.batch > 4 * updates.MEAN_OVER
