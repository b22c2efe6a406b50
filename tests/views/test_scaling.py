"""Speed against the number of processes: numbers worked out by hand, in the text and in the picture."""

import pytest
from runs_by_hand import CPU, GPU, end, record, start, steps

from dlojz.errors import UsageError
from dlojz.views import scaling


def run(world, seconds, machine=GPU, batch=64, idle=0.1, events=(), **fields):
    began = start(machine, world=world, batch_size=batch)
    return record(began, *events, *steps(seconds=seconds, idle=idle, images=batch * world, **fields), end())


def test_efficiency_by_hand():
    # 64 images in 0.5 s: 128 images/s. Two processes: 128 in 0.5625 s, 227.6 of 256. Four: 256 in 0.8 s, 320 of 512.
    view = scaling(run(4, 0.8), run(1, 0.5), run(2, 0.5625))
    lines = [line.split() for line in repr(view).splitlines()]
    rows = {line[0]: line for line in lines if line[0].isdigit() and line[1].isdigit()}
    assert list(rows) == ["1", "2", "4"]
    assert rows["1"][:6] == ["1", "64", "128", "128", "100%", "500"]
    assert rows["2"][:6] == ["2", "128", "228", "256", "89%", "562"]
    assert rows["4"][:6] == ["4", "256", "320", "512", "62%", "800"]
    text = repr(view)
    assert "4 processes: 2.50x the images/s of 1 process, an efficiency of 62%." in text
    assert "A step takes 300 ms longer; of the phases backward has grown most, in which gradients are exchanged" in text
    assert "weak scaling" in text and "No GPU" not in text
    page = view._repr_html_()
    for said in (">89%<", ">62%<", "320 images/s", "stroke-dasharray"):
        assert said in page


def test_strong_scaling_and_shared_cores():
    text = repr(scaling(run(1, 0.5, CPU, 64), run(2, 0.5, CPU, 32)))
    assert "strong scaling" in text and "share its 2 cores" in text and "efficiency of 50%" in text
    assert "processes with hardware of their own" in text


def test_several_runs_of_a_number_count_by_the_fastest():
    text = repr(scaling(run(1, 1.0), run(1, 0.5), run(2, 0.5)))
    assert "2 processes: 2.00x the images/s of 1 process, an efficiency of 100%" in text
    assert "More than ideal" not in text
    assert [line.split()[4] for line in text.splitlines() if line[0].isdigit()][:3] == ["50%", "100%", "100%"]


def test_more_than_ideal_is_no_gain():
    text = repr(scaling(run(1, 2.0), run(2, 0.5)))
    assert "efficiency of 400%" in text and "More than ideal: what 1 process did is no fair measure" in text


def test_what_cannot_be_shown_is_said():
    with pytest.raises(UsageError):
        scaling()
    nothing = scaling(record(start(world=2)))
    assert "left out: no step of it was timed" in repr(nothing) and "left out" in nothing._repr_html_()
    one = scaling(run(2, 0.5), record(start(world=4)))
    assert "same number of processes" in repr(one) and "left out" in repr(one)
    todo = {"event": "todo", "lab": "ddp", "file": "train.py", "line": 3, "message": "ddp is not written yet"}
    assert "ddp is not written yet, so each process trained alone" in repr(scaling(run(1, 0.5), run(2, 0.5, events=(todo,))))
    text = repr(scaling(run(1, 0.5), run(2, 0.5, {**GPU, "gpu": "another"})))
    assert "not comparable" in text
