"""The lab batches: what workers draw, how sequences are padded, and what reading images costs, by numbers."""

import json
import re
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from dlojz.data import MEAN, STD, shards
from dlojz.labs import catalogue
from dlojz.labs.batches import figures, reading

# --- chance ----------------------------------------------------------------------------------------------------------------


def own_generator(worker):
    get_worker_info().dataset.rng = np.random.default_rng(get_worker_info().seed)


def test_what_workers_draw():
    plain = str(figures.draws()).splitlines()
    assert [line.endswith("the same again") for line in plain[2:]] == [False, False, False, True]
    assert "the same again" not in str(figures.draws(own_generator))


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
    return catalogue.laid_out(name, ["batches"])


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


@pytest.mark.parametrize("decoder", [decoder for decoder in reading.DECODERS if decoder.work], ids=lambda decoder: decoder.name)
def test_each_decoder_gives_the_same_picture(decoder):
    if decoder.name == "simplejpeg":
        pytest.importorskip("simplejpeg")
    content = reading.photo_files(1)[0].read_bytes()
    expected, image = reading._pillow(content, 48), decoder.work(content, 48)
    assert expected.shape == (3, 48, 48)
    if image.is_floating_point():
        image = (image * per_channel(STD) + per_channel(MEAN)) * 255
    assert (image.float() - expected.float()).abs().mean() < 12


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


def test_the_speed_that_is_needed_is_in_the_figure(tmp_path, monkeypatch):
    run = tmp_path / "feed_random-001"
    run.mkdir()
    events = [{"event": "start", "time": 0.0, "args": {}, "machine": {}},
              *({"event": "step", "time": 1.0, "step": number, "seconds": 0.5, "images": 100} for number in range(1, 5)),
              {"event": "end", "time": 3.0, "status": "completed", "steps": 4}]
    (run / "record.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    calls = reading.Calls("a file each", 10, 10, 10, 1_000_000), reading.Calls("tar shards", 10, 1, 1, 1_000_000)
    assert f"{run}: 200" in reading.latency(4, calls=calls, decoding=0.002, here=0.004, against=str(run)).page
    monkeypatch.setattr(reading, "made_and_counted", lambda count: calls)
    text = str(reading.requests(against=str(run)))
    assert "At the 200 images/s" in text and "20.0 MB/s, and 400 round trips a second (a file each) or 40 round trips" in text


def test_figures_are_text_and_pages_that_take_the_page_s_colours(here):
    for view in (figures.padding(), reading.requests(12), reading.latency(2, 32, decoding=0.002, here=0.001)):
        page = view._repr_html_()
        assert repr(view) and "<" not in repr(view)
        beside = re.sub(r'<text[^>]*>\d+</text>', "", page)  # without the numbers on coloured bars, which are black or white
        assert "<script" not in page and 'fill="black"' not in page and 'fill="#000' not in beside
        assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
