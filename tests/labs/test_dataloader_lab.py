"""The lab dataloader: numbers in its figures, its sizes, and what its check sees beyond its own fence."""

import json
import re
from itertools import pairwise

import pytest

from dlojz.labs import workspace
from dlojz.labs.checking import run_check
from dlojz.labs.dataloader import figures
from dlojz.labs.loading_runs import sized
from dlojz.system.errors import UsageError
from dlojz.system.sites import sizes

# --- what workers change --------------------------------------------------------------------------------------------------


def waits(spans):
    return sum(span.end - span.begin for span in spans if span.what == "idle")


def test_without_workers_loading_and_training_take_turns():
    spans = figures.schedule(loading=2, training=1, workers=0, batches=3)
    assert [(span.what, span.begin, span.end) for span in spans if span.lane == -1] == [
        ("idle", 0, 2), ("training", 2, 3), ("idle", 3, 5), ("training", 5, 6), ("idle", 6, 8), ("training", 8, 9)]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_the_slower_of_loading_and_training_decides(workers):
    spans = figures.schedule(loading=3, training=1, workers=workers, batches=60)
    ended = max(span.end for span in spans)
    assert ended == pytest.approx(max(3 / workers, 1) * 60, rel=0.1)
    for lane in range(-1, workers):  # nobody does two things at a time
        own = sorted((span.begin, span.end) for span in spans if span.lane == lane)
        assert all(first[1] <= second[0] + 1e-9 for first, second in pairwise(own))
    loaded = {span.batch: span.end for span in spans if span.what == "loading"}
    assert all(span.begin >= loaded[span.batch] for span in spans if span.what == "training")
    assert (waits(spans) == 3) == (workers >= 3)  # from three on, only the first batch is waited for


def test_no_worker_is_further_ahead_than_asked():
    spans = figures.schedule(loading=1, training=10, workers=2, batches=20, ahead=3)
    begun = {span.batch: span.begin for span in spans if span.what == "training"}
    assert all(span.begin >= begun[span.batch - 6] for span in spans if span.what == "loading" and span.batch >= 6)


# --- what there is room for, what is reachable -----------------------------------------------------------------------------


def record(folder, **machine):
    """A run on random data of 4 timed steps, 200 images/s."""
    folder.mkdir(parents=True)
    events = [{"event": "start", "time": 0.0, "image_size": 64, "model": "resnet18", "world_size": 1, "args": {"data": "random"},
               "machine": machine}]
    events += [{"event": "step", "time": 1.0, "step": number, "seconds": 0.5, "images": 100} for number in range(1, 5)]
    events += [{"event": "end", "time": 3.0, "status": "completed", "steps": 4}]
    (folder / "record.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(folder)


def test_reachable_by_hand(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "seconds_to_load", lambda size, images: 0.02)
    gpu = str(figures.reachable(record(tmp_path / "gpu-001", device="cuda", gpu="a GPU", cores_allowed=2)))
    assert "50 images/s on one core" in gpu and "200 images/s (gpu-001)" in gpu
    assert "4.0, to load as fast as the GPU trains; the run may use 2" in gpu and "about 50% of" in gpu
    enough = str(figures.reachable(record(tmp_path / "gpu-002", device="cuda", gpu="a GPU", cores_allowed=16)))
    assert "about 100% of" in enough
    cpu = str(figures.reachable(record(tmp_path / "cpu-001", device="cpu", cpu="a CPU", cores_allowed=2)))
    assert "10.00 ms for an image" in cpu and "about 33% of" in cpu  # 10 ms of both cores to train, 20 ms of one to load


def test_loading_takes_time_of_a_core():
    assert 1e-5 < figures.seconds_to_load(32, images=2) < 1


def test_room_says_when_there_are_too_few_cores(monkeypatch):
    monkeypatch.setattr(figures.machine, "cores_allowed", lambda: 3)
    text = str(figures.room(4, batch_size=256, image_size=224))
    assert "3 of" in text and "8 batches of 256 images" in text and "308.3 MB in /dev/shm" in text and "1,233.2 MB" in text
    assert "4 workers on 3 cores take turns" in text and "take turns" not in str(figures.room(3, 8, 32))
    monkeypatch.setattr(figures.hardware, "look_shm", lambda system: {"there": True, "free": 64e6, "total": 64e6})
    assert "Too little for float32 images" in str(figures.room(2, 256, 224))


def test_no_table_before_the_first_run(here):
    with pytest.raises(UsageError, match="there is no run feed_random yet"):
        figures.trials()


def test_the_first_batches_are_timed():
    text = str(figures.starts(workers=1, image_size=32, batch_size=2, epochs=2))
    assert "started anew" in text and "persistent_workers" in text and "epoch 2" in text


# --- sizes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["ci", "laptop", "gpu", "cluster"])
def test_runs_of_each_scale(scale, monkeypatch):
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    here = sized(scale)
    for command in (here.run, here.feed):
        assert command.startswith("train.py --test --test-steps ") and "--data photos" in command
    assert here.random == here.run.replace("photos", "random") and here.feed_random == here.feed.replace("photos", "random")
    assert here.workers >= 1 and here.run in repr(here)
    assert here.feed_batch == sizes(scale).batch_size or f"--batch-size {here.feed_batch}" in here.feed


def test_workers_of_a_cluster_are_the_cores_of_a_gpu(monkeypatch):
    monkeypatch.setenv("DLOJZ_SITE", "jean-zay")
    assert sized().workers == 10


# --- the check sees what lies around its fences ----------------------------------------------------------------------------


def test_a_validation_loader_that_does_without(tmp_path):
    workspace.create(tmp_path, ["gpu", "dataloader"])
    file = tmp_path / "train.py"
    text = file.read_text()
    changed, count = re.subn(r"(val_loader = DataLoader\(.*), \*\*loading\)", r"\1, batch_size=args.batch_size)", text)
    assert count == 1
    file.write_text(changed)
    outcome = run_check("dataloader", tmp_path)
    assert outcome.state == "WRONG" and "the loader of the validation has num_workers=0" in outcome.message, outcome


def test_figures_are_text_and_pages_that_take_the_page_s_colours(here):
    for view in (figures.pipeline(), figures.room(2, 8, 32)):
        page = view._repr_html_()
        assert repr(view) and "<" not in repr(view)
        beside = re.sub(r'<text[^>]*>\d+</text>', "", page)  # without the numbers on coloured bars, which are black or white
        assert "<script" not in page and 'fill="black"' not in page and 'fill="#000' not in beside
        assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
