"""The lab dataloader: numbers in its figures, its sizes, and what its check sees beyond its own fences."""

import json
import re
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from dlojz.data import MEAN, STD, shards
from dlojz.labs import catalogue, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.dataloader import figures, reading
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


# --- chance ----------------------------------------------------------------------------------------------------------------


def own_generator(worker):
    get_worker_info().dataset.rng = np.random.default_rng(get_worker_info().seed)


def test_what_workers_draw():
    plain = str(figures.draws()).splitlines()
    assert [line.endswith("the same again") for line in plain[2:]] == [False, False, False, True]
    assert "the same again" not in str(figures.draws(own_generator))


def test_the_first_batches_are_timed():
    text = str(figures.starts(workers=1, image_size=32, batch_size=2, epochs=2))
    assert "started anew" in text and "persistent_workers" in text and "epoch 2" in text


# --- sequences -------------------------------------------------------------------------------------------------------------


def test_waste_by_hand():
    lengths, batches = [1, 2, 3, 4], [[0, 1], [2, 3]]
    assert figures.waste(lengths, batches) == pytest.approx(1 - 10 / 12)
    assert figures.waste(lengths, batches, width=4) == pytest.approx(1 - 10 / 16)
    assert sorted(index for batch in figures.by_chance(lengths, 3) for index in batch) == [0, 1, 2, 3]


def test_sentences_are_prose():
    lengths = figures.sentences()
    assert len(lengths) > 1000 and 8 < sorted(lengths)[len(lengths) // 2] < 20 and max(lengths) < 120 and min(lengths) > 0


def percent(text, words):
    return float(next(line for line in text.splitlines() if words in line).split(": ")[1].split("%")[0])


def test_padding_shows_what_the_trainee_s_file_does(here):
    before = str(figures.padding())
    chance = percent(before, "longest of the batch")
    assert percent(before, "your loading.py") == pytest.approx(chance, abs=5) and percent(before, "of the set") > chance
    (here / "loading.py").write_text(solved("loading.py"))
    assert percent(str(figures.padding()), "your loading.py") < chance / 3


def solved(name):
    return catalogue.laid_out(name, ["dataloader"])


@pytest.mark.parametrize("broken, said", [
    ("def buckets(lengths, batch_size, generator):\n    return lengths[0] / 0\n", "loading.py, line 2: ZeroDivisionError"),
    ("def buckets(:\n", "loading.py: SyntaxError"),
    ("seed_worker = None\n", "loading.py: AttributeError"),
    (None, "loading.py is not here"),
])
def test_padding_with_a_broken_file(here, broken, said):
    if broken is None:
        (here / "loading.py").unlink()
    else:
        (here / "loading.py").write_text(broken)
    view = figures.padding()
    assert said in str(view) and "your loading.py:" not in str(view) and "Traceback" not in str(view)


def test_the_finished_loading_works_in_a_loader():
    namespace = {}
    exec(compile(solved("loading.py"), "loading.py", "exec"), namespace)
    sequences = [torch.arange(1, length + 1) for length in (3, 9, 1, 8, 2, 10)]
    batches = namespace["buckets"]([len(s) for s in sequences], 3, torch.Generator().manual_seed(0))
    loader = DataLoader(sequences, batch_sampler=batches, collate_fn=namespace["pad"])
    shapes = sorted(tuple(tokens.shape) for tokens, _ in loader)
    assert shapes == [(3, 3), (3, 10)]
    for tokens, mask in loader:
        assert (tokens > 0).equal(mask) and mask.any(0).all()


# --- what is read ----------------------------------------------------------------------------------------------------------


def test_decoders_on_two_photos(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    rows = {line.split("  ")[0]: line for line in str(reading.decoders(32, count=2)).splitlines()[2:]}
    assert rows["Pillow"].split()[-1] == "0.00" and 'pip install "dlojz[data]"' in rows["simplejpeg"]
    assert float(rows["Pillow, draft mode"].split()[-1]) < 12, "another way to average, the same picture"


def test_each_decoder_gives_the_same_picture():
    content = reading.photo_files(1)[0].read_bytes()
    expected = reading._pillow(content, 48)
    assert expected.shape == (3, 48, 48)
    for decoder in reading.known():
        if decoder.work is not None:
            image = decoder.work(content, 48)
            if image.is_floating_point():
                image = (image * per_channel(STD) + per_channel(MEAN)) * 255
            assert (image.float() - expected.float()).abs().mean() < 12, decoder.name


def per_channel(values):
    return torch.tensor(values).view(3, 1, 1)


def test_a_decoder_that_fails_says_so():
    def fails(content, size):
        raise RuntimeError("built without JPEG")

    found = reading.measure(reading.Decoder("x", fails), [b""], 8)
    assert found.speed is None and found.lacking == "does not work here: RuntimeError"
    text = str(reading.decoders_view([reading.Decoded("a", 100.0, 0.0), found], 8, 1000))
    assert "does not work here" in text and "100" in text


def test_calls_are_counted(tmp_path):
    for number in range(12):
        file = tmp_path / "set" / "class" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(1000))
    written = shards.write(tmp_path / "set", tmp_path / "shards", images=6)
    files, tars = reading.count_calls(sorted((tmp_path / "set").glob("*/*")), written)
    assert (files.images, files.opened, files.bytes) == (12, 12, 12_000)
    assert (tars.images, tars.opened, tars.bytes) == (12, 2, 12_000)
    if sys.platform == "linux":
        assert files.reads == 12 and files.trips == 2
        assert tars.reads <= 4 and tars.trips <= 0.5
    assert reading.Calls("x", 10, 10, None, 5).trips == 2  # where the kernel does not say: a read for each


def test_what_a_round_trip_costs_by_hand():
    assert reading.speed_at(latency=0.001, trips=2, decoding=0.002, workers=4) == pytest.approx(1000)
    calls = reading.Calls("a file each", 10, 10, 10, 100), reading.Calls("tar shards", 10, 1, 1, 100)
    text = str(reading.latency(4, calls=calls, decoding=0.002, here=0.004))
    table = [line.split() for line in text.splitlines()[1:4]]
    assert table[1][3:] == ["1,980", "1,818", "1,000", "182"] and table[2][2:] == ["1,998", "1,980", "1,818", "1,000"]
    assert "4.00 ms to open and read" in text and "2.00 ms a round trip" in text
    assert 0 < reading.first_read(reading.photo_files(2)) < 10


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
    views = [figures.pipeline(), figures.room(2, 8, 32), figures.padding(), reading.requests(12),
             reading.latency(2, 32, decoding=0.002, here=0.001)]
    for view in views:
        page = view._repr_html_()
        assert repr(view) and "<" not in repr(view)
        beside = re.sub(r'<text[^>]*>\d+</text>', "", page)  # without the numbers on coloured bars, which are black or white
        assert "<script" not in page and 'fill="black"' not in page and 'fill="#000' not in beside
        assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_the_speed_that_is_needed_is_in_the_figure(tmp_path, monkeypatch):
    run = record(tmp_path / "feed_random-001", device="cpu", cpu="a CPU", cores_allowed=2)
    calls = reading.Calls("a file each", 10, 10, 10, 1_000_000), reading.Calls("tar shards", 10, 1, 1, 1_000_000)
    assert f"{run}: 200" in reading.latency(4, calls=calls, decoding=0.002, here=0.004, against=run).page
    monkeypatch.setattr(reading, "made_and_counted", lambda count: calls)
    text = str(reading.requests(against=run))
    assert "At the 200 images/s" in text and "20.0 MB/s, and 400 round trips a second (a file each) or 40 round trips" in text
