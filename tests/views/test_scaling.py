"""Speed against the number of processes: numbers worked out by hand, in the text and in the picture."""

import re

import pytest
from runs_by_hand import CPU, GPU, end, folder, job, record, start, steps

from dlojz.system.errors import UsageError
from dlojz.ui.palette import GREY, SPEED
from dlojz.views import comparable, scaling


def run(world, seconds, machine=GPU, batch=64, events=(), **args):
    return record(*events_of(world, seconds, machine, batch, events, **args))


def events_of(world, seconds, machine=GPU, batch=64, events=(), **args):
    return [start(machine, world=world, batch_size=batch, **args), *events, *steps(seconds=seconds, images=batch * world), end()]


def rows_of(view):
    """The lines of the table, by their cells."""
    lines = [re.split(r"\s{2,}", line) for line in repr(view).splitlines()]
    return [line for line in lines if len(line) > 5 and line[1].isdigit()]


def test_efficiency_by_hand():
    # 64 images in 0.5 s: 128 images/s. Two processes: 128 in 0.5625 s, 227.6 of 256. Four: 256 in 0.8 s, 320 of 512.
    view = scaling(run(4, 0.8), run(1, 0.5), run(2, 0.5625))
    assert [row[:7] for row in rows_of(view)] == [["run", "1", "64", "128", "128", "100%", "500"],
                                                  ["run", "2", "128", "228", "256", "89%", "562"],
                                                  ["run", "4", "256", "320", "512", "62%", "800"]]
    text = repr(view)
    assert "4 processes: 2.50x the images/s of 1 process, an efficiency of 62%." in text
    assert "A step takes 300 ms longer; backward grew most (by " in text
    assert "weak scaling" in text and "No GPU" not in text
    page = view._repr_html_()
    for said in (">89%</text>", ">62%</text>", "<title>run, 4 processes: 320 images/s</title>", "stroke-dasharray"):
        assert said in page
    for row in [re.split(r"\s{2,}", text.splitlines()[1]), *rows_of(view)]:  # the table of the page is that of the text
        for cell in row:
            assert f">{cell}</t" in page
    assert "waiting for data, ms  forward, ms  backward, ms  update, ms" in text


def test_the_cheapest_and_the_fastest_by_hand():
    # 1 GPU at 128 images/s: 1e6 / 128 / 3600 = 2.17 hours a million. 4 at 320: 4e6 / 320 / 3600 = 3.47. The end says 4.6875 J.
    view = scaling(run(4, 0.8), run(1, 0.5))
    head = re.split(r"\s{2,}", repr(view).splitlines()[1])
    assert head[-2:] == ["GPU-hours per million", "J/image"]
    assert [row[-2:] for row in rows_of(view)] == [["2.17", "4.69"], ["3.47", "4.69"]]
    assert "Fastest: run (320 images/s). Cheapest: run (2.17 GPU-hours per million images; run takes 3.47), at 4.69 and 4.69 J " \
        "per image." in repr(view)
    assert "Fastest and cheapest: run." in repr(scaling(run(1, 0.5), run(2, 0.2)))
    assert "process-hours per million" in repr(scaling(run(1, 0.5, CPU), run(2, 0.5, CPU)))
    without = record(*events_of(1, 0.5)[:-1], {key: value for key, value in end().items() if key != "joules_per_image"})
    assert "J/image" not in repr(scaling(without)) and rows_of(scaling(without, run(2, 0.5)))[0][-1] == "-"


def test_strong_scaling_and_shared_cores():
    text = repr(scaling(run(1, 0.5, CPU, 64), run(2, 0.5, CPU, 32)))
    assert "strong scaling" in text and "share its 2 cores" in text and "efficiency of 50%" in text
    assert "separate hardware for each process" in text


def test_several_runs_of_a_number_count_by_the_fastest():
    text = repr(scaling(run(1, 1.0), run(1, 0.5), run(2, 0.5)))
    assert "2 processes: 2.00x the images/s of 1 process, an efficiency of 100%" in text
    assert "Above ideal" not in text
    assert [row[5] for row in rows_of(scaling(run(1, 1.0), run(1, 0.5), run(2, 0.5)))] == ["50%", "100%", "100%"]
    assert "Runs of 1 process that should be equally fast ran at 64.0 to 128 images/s: was the machine busy" in text
    assert "equally fast" not in repr(scaling(run(1, 0.6), run(1, 0.5), run(2, 0.5)))


def test_more_than_ideal_is_no_gain():
    text = repr(scaling(run(1, 2.0), run(2, 0.5)))
    assert "efficiency of 400%" in text and "Above ideal: 1 process is not a fair baseline" in text


def test_what_cannot_be_shown_is_said():
    with pytest.raises(UsageError):
        scaling()
    nothing = scaling(record(start(world=2)))
    assert "left out: no step of it was timed" in repr(nothing) and "left out" in nothing._repr_html_()
    one = scaling(run(2, 0.5), record(start(world=4)))
    assert "same number of processes" in repr(one) and "left out" in repr(one)
    todo = {"event": "todo", "lab": "ddp", "file": "train.py", "line": 3, "message": "ddp is not written yet"}
    assert "ddp is not written yet, so each process trained alone" in repr(scaling(run(1, 0.5), run(2, 0.5, events=(todo,))))


@pytest.mark.parametrize("fields, said", [
    ({"model": "resnet18"}, "model resnet18 here, resnet50 there"), ({"amp": "bf16"}, "amp bf16 here, off there"),
    ({"batch": 48}, "batch size 48 here, 64 there"), ({"machine": {**GPU, "gpu": "B200"}}, "device B200 here, NVIDIA H100 there"),
    ({"accumulate": 2}, "accumulate 2 here, 1 there")])
def test_what_cannot_be_compared_is_beside_the_curve(tmp_path, fields, said):
    other = folder(tmp_path / "other-001", events_of(2, 0.1, **fields))
    view, alone = scaling(other, run(1, 0.5), run(2, 0.5625), run(4, 0.8)), scaling(run(1, 0.5), run(2, 0.5625), run(4, 0.8))
    assert rows_of(view)[:3] == rows_of(alone) and rows_of(view)[3][0] == "other-001" and rows_of(view)[3][4:6] == ["-", "-"]
    assert all(line in repr(view) for line in repr(alone).splitlines()[5:])
    assert f"other-001 is beside the curve, for it can't be compared with run: {said}." in repr(view)
    assert f'fill="{GREY}"><title>other-001, 2 processes' in view.page and "can&#x27;t be compared" in view.page


def test_what_changes_no_step_and_what_needs_several_processes_may_differ():
    view = scaling(run(1, 0.5), run(2, 0.5, lr=0.2, epochs=9, test=True, sync_bn=True))
    assert "beside" not in repr(view) and "an efficiency of 100%" in repr(view)
    todo = {"event": "todo", "lab": "amp", "file": "train.py", "line": 3, "message": "amp is not written yet"}
    view = scaling(run(1, 0.5, amp="bf16"), run(2, 0.5, amp="bf16", events=[todo]))
    assert "unwritten labs amp here, nothing there" in repr(view)
    assert "sync bn on here, off there" in repr(scaling(run(2, 0.5), run(4, 0.5, sync_bn=True)))


def test_a_run_that_did_not_complete_is_said(tmp_path):
    late = job(tmp_path / "late-001", events_of(2, 0.5)[:-1], "TIMEOUT")
    assert "late-001 did not complete (timeout): its numbers are from 10 of 10 steps." in repr(scaling(run(1, 0.5), late))


def test_many_processes_have_room():
    page = scaling([run(count, 0.5) for count in range(1, 17)]).page
    dots = [float(x) for x in re.findall(rf'cx="([\d.]+)"[^>]*fill="{SPEED}"', page)]
    assert dots[1] - dots[0] == pytest.approx(dots[3] - dots[1], abs=0.2) == pytest.approx(dots[15] - dots[7], abs=0.2)
    shown = [(float(x), float(y)) for x, y in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>100%</text>', page)]
    assert len(shown) >= 5  # the others are in the table
    assert all(abs(x - x2) > 35 or abs(y - y2) > 12 for i, (x, y) in enumerate(shown) for x2, y2 in shown[:i])
    few = scaling(run(1, 0.5), run(2, 0.5), run(4, 0.5)).page
    dots = [float(x) for x in re.findall(rf'cx="([\d.]+)"[^>]*fill="{SPEED}"', few)]
    assert dots[2] - dots[1] == pytest.approx(2 * (dots[1] - dots[0]), abs=0.2)


def test_a_curve_of_many_runs_is_found_without_comparing_each_with_each(monkeypatch):
    asked = []

    def differences(run, base, *more, _said=comparable.differences):
        asked.append(run)
        return _said(run, base, *more)

    monkeypatch.setattr(comparable, "differences", differences)
    records = [run(1 + number % 4, 0.5) for number in range(60)]
    assert "4 processes" in str(scaling(records))
    assert len(asked) <= 2 * 5 * len(records)
