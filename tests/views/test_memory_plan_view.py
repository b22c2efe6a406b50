"""views.memory_plan and views.snapshot: sentences that hold, and files that are no snapshots."""

import gzip
import os
import pickle
import sys

import pytest

from dlojz import views
from dlojz.system.errors import UsageError
from dlojz.training.memory_plan import of_command

plans = sys.modules["dlojz.views.memory_plan"]  # its function has the same name
LM = "train_lm.py --model 1m --length 64 -b 16 --vocabulary 4096 --data random"


def test_it_says_which_batch_fits(monkeypatch):
    """The batch that it names fits by the count itself, and one a quarter larger does not."""
    peak = of_command(LM).peak
    monkeypatch.setitem(plans.CARDS, "toy", (0.7 * peak * plans.SPARE + plans.CONTEXT) / 1e9)
    view = views.memory_plan(LM, card="toy")
    said = next(line for line in repr(view).splitlines() if "does not fit" in line)
    batch = int(said.rsplit("a batch of ", 1)[1].split()[0].replace(",", ""))
    total = plans.CARDS["toy"] * 1e9
    assert plans.fits(of_command(LM, batch_size=batch), total)
    assert not plans.fits(of_command(LM, batch_size=batch * 5 // 4 + 1), total)
    assert "logits and loss" in repr(view) and "logits and loss" in view._repr_html_()
    monkeypatch.setitem(plans.CARDS, "toy", 1000)
    assert "fits a toy" in repr(views.memory_plan(LM, card="toy"))


def test_the_batch_that_fits_is_found_from_one_row():
    """Whose peak is in the update: a line through the peaks of one and two rows would be almost flat."""
    batch = plans.largest_batch(of_command(LM, batch_size=1), LM, 100e6 * plans.SPARE + plans.CONTEXT)
    assert 0.85e8 < of_command(LM, batch_size=batch).peak <= 1e8


def test_cards_by_the_start_of_their_names():
    assert "fits a V100 32 GB" in repr(views.memory_plan(LM, card="v100 32gb"))
    with pytest.raises(UsageError, match=r"there is no card 'V10O'.*V100 16 GB"):
        views.memory_plan(LM, card="V10O")
    for other in (32, "", None):
        with pytest.raises(UsageError, match="there is no card"):
            views.memory_plan(LM, card=other)
    with pytest.raises(UsageError, match="give a command"):
        views.memory_plan()


def frame(file, line, name):
    return {"filename": file, "line": line, "name": name}


def event(action, address, size, *frames):
    return {"action": action, "addr": address, "size": size, "frames": list(frames), "stream": 0, "time_us": 0}


@pytest.fixture
def trace():
    """300 MB by one line, 100 by another, of which the first are freed; 50 that nobody saw allocated."""
    lm, torch_own = frame("/w/lm.py", 84, "forward"), frame("/lib/torch/nn/functional.py", 1, "linear")
    return [event("free_requested", 9, 50_000_000), event("free_completed", 9, 50_000_000),
            event("alloc", 1, 300_000_000, torch_own, lm), event("alloc", 2, 100_000_000, frame("/w/train.py", 7, "train")),
            event("free_requested", 1, 300_000_000), event("free_completed", 1, 300_000_000),
            event("alloc", 1, 200_000_000, torch_own)]


def written(path, trace):
    segments = [{"total_size": 500_000_000, "allocated_size": 300_000_000,
                 "blocks": [{"size": 150_000_000, "state": "inactive"}, {"size": 300_000_000, "state": "active_allocated"}]}]
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as file:
        pickle.dump({"segments": segments, "device_traces": [[], trace]}, file)
    return path


@pytest.mark.parametrize("name", ["snapshot.pickle", "snapshot.pickle.gz"])
def test_a_snapshot_by_place(tmp_path, trace, name):
    view = views.snapshot(written(tmp_path / name, trace))
    said = repr(view)
    assert "Peak of what was allocated while it was recorded: 0.40 GB" in said
    assert "0.30 GB of the peak (75%): lm.py(84): forward" in said and "0.10 GB of the peak (25%): train.py(7): train" in said
    assert "50.0 MB were freed that had been allocated before" in said
    assert "0.50 GB are reserved and 0.30 GB of them in use; the largest hole has 0.15 GB" in said
    assert "lm.py(84)" in view._repr_html_()


def test_a_pickle_that_would_run_something_is_refused(tmp_path):
    class Bad:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(Bad()))
    with pytest.raises(UsageError, match="is no snapshot of torch's allocator"):
        views.snapshot(file)
    assert not (tmp_path / "ran").exists()
    file.write_bytes(b"text")
    with pytest.raises(UsageError, match="is no snapshot"):
        views.snapshot(file)
    with pytest.raises(UsageError, match="there is no"):
        views.snapshot(tmp_path / "nothing")
