"""Memory sweep, timeline, curves, comparison and report against records worked out by hand; all views on what is broken."""

import copy
import csv
import io
import json
import math
import random
import re
import subprocess
import sys
import time

import pytest
import runs_by_hand as by_hand
from runs_by_hand import MEASURED, OUT_OF_MEMORY, VALIDATION, end, folder, job, record, start, steps

from dlojz import views
from dlojz.jobs import runs
from dlojz.system.errors import UsageError
from dlojz.training import records
from dlojz.ui import palette
from dlojz.ui.axes import shares

curves, dashboard, timeline = (sys.modules[f"dlojz.views.{name}"] for name in ("curves", "dashboard", "timeline"))
ALL = {"dashboard": views.dashboard, "timeline": views.timeline, "curves": views.curves, "memory_sweep": views.memory_sweep,
       "compare": views.compare, "report": views.report}


# --- memory sweep ---------------------------------------------------------------------------------------------------------


def sweep(*batches: int, machine=by_hand.GPU) -> list[records.Record]:
    """Memory is 2 GB and 0.05 GB an image; a batch of 1024 does not fit. Images/s: 2 x batch / 0.5 s."""
    found = []
    for batch in batches:
        error = [OUT_OF_MEMORY] if batch >= 1024 else []
        gb = 2 + 0.05 * batch
        ended = {"event": "end", "status": "failed"} if error else end(gb=gb, power=100.0 + batch, host_memory=int(gb * 1e9))
        found.append(record(start(machine, batch_size=batch), *steps(last=1 if error else 10, images=2 * batch), *error, ended))
    return found


def test_memory_sweep_by_hand():
    view = views.memory_sweep(sweep(512, 64, 1024, 128))
    assert str(view) == """\
memory and speed against the batch size: resnet50, 224 px, on NVIDIA H100, 16 cores, torch 2.11.0
run  batch   memory  reserved  images/s  power  J/image  state
run     64  5.20 GB   5.72 GB       256  164 W     4.69  completed
run    128  8.40 GB   9.24 GB       512  228 W     4.69  completed
run    512  27.6 GB   30.4 GB     2,048  612 W     4.69  completed
run  1,024        -         -         -      -        -  out of memory
2.00 GB do not depend on the batch (the model with its gradients and optimizer); activations take 50.0 MB per image.
By count: parameters 0.10 GB, gradients 0.10 GB, optimizer 0.10 GB, together 0.30 GB.
What the allocator reserves would fill the card's 80.0 GB at a batch of about 1,400.
Out of memory at a batch of 1,024; 512 fitted.
Fastest: a batch of 512 with 2,048 images/s (run)."""
    page = view._repr_html_()
    for line in str(view).split("\n")[6:]:
        assert line.replace("'", "&#x27;") in page
    for tip in ("batch 64: 5.20 GB", "batch 128: 512 images/s", "batch 512: 612 W", "batch 1024: out of memory"):
        assert f"<title>run, {tip}</title>" in page
    for row in str(view).split("\n")[1:6]:  # the table of the page is that of the text
        for cell in re.split(r"\s{2,}", row):
            assert f">{cell}</t" in page
    assert "the card&#x27;s 80.0 GB" in page


def test_memory_sweep_says_out_of_memory_where_no_line_passes():
    page = views.memory_sweep(sweep(64, 128, 512, 1024)).page
    limit = float(re.search(r'd="M[\d.]+ ([\d.]+)H[\d.]+"[^>]*stroke-dasharray="7 5"', page)[1])
    assert float(re.search(r'<text [^>]*y="([\d.]+)"[^>]*>out of memory<', page)[1]) < limit - 8
    colours = re.findall(r"background: ([^;]+); margin-right", page)  # of the legend: what is dashed there is dashed here
    assert len(set(colours)) == len(colours) and any("repeating-linear-gradient" in colour for colour in colours)


def test_memory_sweep_has_what_broke_before_it_recorded_its_batch(tmp_path):
    path = folder(tmp_path / "huge-001", [OUT_OF_MEMORY], {"state": "OUT_OF_MEMORY", "reason": "", "exit_code": 1},
                  request={"name": "huge", "command": ["train.py", "--batch-size", "100000"], "site": "laptop", "seconds": 600})
    view = views.memory_sweep(path, sweep(64, 128))
    assert "Out of memory at a batch of 100,000; 128 fitted." in str(view) and "left out" not in str(view)
    assert "beside" not in str(view) and "would fill the card's 80.0 GB" in str(view)
    assert re.search(r"huge-001 +100,000 .* out of memory", str(view)) and ">out of memory at 100,000</text>" in view.page
    dots = [float(x) for x in re.findall(r'cx="([\d.]+)"[^>]*><title>run, batch (?:64|128): \d+ images/s', view.page)]
    assert dots[1] - dots[0] > 150  # the others keep their room
    assert "Two batch sizes that fit" in str(views.memory_sweep(path))


def test_memory_sweep_goes_by_the_fastest_of_a_batch():
    slow = record(start(by_hand.GPU, batch_size=128), *steps(seconds=1.0, images=256), end(gb=8.4, power=400.0))
    page = views.memory_sweep(sweep(64, 128), slow, sweep(512)).page
    line = re.search(rf'<path d="(M[^"]*)" fill="none" stroke="{palette.SPEED}"', page)[1]
    across = [float(x) for x in re.findall(r"[MLH]([\d.]+)", line)]  # points on a straight line may be left out
    assert len(across) >= 2 and across == sorted(set(across)) and page.count("batch 128: 256 images/s") == 1


@pytest.mark.parametrize("fields, said", [
    ({"model": "resnet18"}, "model resnet18 here, resnet50 there"), ({"amp": "bf16"}, "amp bf16 here, off there"),
    ({"world": 1}, "processes 1 here, 2 there"), ({"machine": by_hand.CPU}, "device EPYC here, NVIDIA H100 there"),
    ({"num_workers": 2}, "num workers 2 here, 0 there")])
def test_memory_sweep_keeps_to_what_can_be_compared(tmp_path, fields, said):
    other = folder(tmp_path / "other-001", [start(**{"batch_size": 256, **fields}), *steps(images=9000), end(gb=70.0)])
    alone, mixed = views.memory_sweep(sweep(64, 128)), views.memory_sweep(other, sweep(64, 128))
    for line in str(alone).split("\n")[4:]:
        assert line in str(mixed)  # the same sentences, whatever the other run did
    assert f"other-001 is beside the curve, for it can't be compared with run: {said}." in str(mixed)
    assert any(line.startswith("other-001") for line in str(mixed).split("\n")[:5])
    assert f'fill="{palette.GREY}"><title>other-001, batch 256' in mixed.page or fields.get("machine")
    assert "beside the curve" not in str(views.memory_sweep(sweep(64), record(start(batch_size=128, lr=0.7), *steps(), end())))


def test_memory_sweep_on_a_cpu_has_no_limit():
    text = str(views.memory_sweep(sweep(16, 32, machine=by_hand.CPU)))
    assert "Python and its libraries); activations take 50.0 MB per image" in text
    assert "card" not in text and "reserved" not in text


@pytest.mark.parametrize(("limit", "drawn"), [(8_000_000_000, True), (800_000_000_000, False)])
def test_memory_sweep_on_a_cpu_knows_the_hosts_limit(limit, drawn):
    view = views.memory_sweep(sweep(16, 32, machine={**by_hand.CPU, "host_memory_total": limit}))
    assert f"The process would fill the host's {limit / 1e9:.{2 if drawn else 1}f} GB at a batch of about" in str(view)
    far = "15,000, by extrapolation: no batch above 32 was tried."  # 2 GB and 0.05 GB an image: 15,960
    assert f"about {'120.' if drawn else far}" in str(view)
    assert ("stroke-dasharray=\"7 5\"" in view._repr_html_()) == drawn


def test_memory_sweep_that_cannot_separate():
    assert "Two batch sizes that fit are needed" in str(views.memory_sweep(sweep(64)))
    assert "Two batch sizes that fit are needed" in str(views.memory_sweep(sweep(64, 64)))
    falling = [record(start(batch_size=b), *steps(), end(gb=100 / b)) for b in (32, 64)]
    assert "Memory does not clearly rise with the batch" in str(views.memory_sweep(falling))
    measured = zip((2, 4, 8, 16, 32), (0.9417, 0.9336, 0.9385, 0.9407, 0.9483))  # of resnet18 at 32 px on a CPU
    noise = [record(start(by_hand.CPU, batch_size=b), *steps(), end(host_memory=int(gb * 1e9))) for b, gb in measured]
    assert "Memory does not clearly rise with the batch" in str(views.memory_sweep(noise)) and "would fill" not in str(noise)
    other = [*sweep(64), record(start(model="resnet18", batch_size=32), *steps(), end())]
    assert "can't be compared with run: model resnet18 here, resnet50 there" in str(views.memory_sweep(other))
    assert "run is left out: its record does not say its batch size" in str(views.memory_sweep(record()))
    assert "Not ended: run." in str(views.memory_sweep([*sweep(64), record(start(batch_size=32), *steps())]))


def test_memory_of_a_small_model_is_counted_in_megabytes():
    text = str(views.memory_sweep(record({**start(), "parameters": 11_181_642}, *steps(), end())))
    assert "By count: parameters 44.7 MB, gradients 44.7 MB, optimizer 44.7 MB, together 0.13 GB." in text


def test_memory_counts_adams_states():
    adam = record(start(optimizer="adamw"), *steps(), end())
    assert "optimizer 0.20 GB, together 0.40 GB" in str(views.memory_sweep(adam))


# --- timeline -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others, said", [
    ([5, 10], "2 checkpoints took 3.00 s"), ([10], "1 checkpoint took 1.50 s"), ([], None),
])
def test_a_timeline_names_only_what_there_was_beside_the_steps(others, said):
    saved = [{"event": "checkpoint", "step": step, "seconds": 1.5, "bytes": 5} for step in others]
    rows = [line.split(None, 1) for line in str(views.timeline(record(start(), *steps(), *saved))).split("\n")]
    assert [what for title, what in rows if title == "other"] == ([said] if said else [])


def test_timeline_by_hand():
    checkpoint = {"event": "checkpoint", "step": 5, "seconds": 1.0, "bytes": 5}
    view = views.timeline(record(start(), *steps(slow=(7, 1.5, 0.9)), checkpoint, VALIDATION, end()))
    assert str(view) == """\
timeline of run: completed: 10 of 10 steps
  run         10 steps in 12.5 s
  first step  4.00 s, 2.00 s of it waiting for data
  warm-up     2 steps in 4.50 s, left out of averages
  per step    625 ms on average, 500 ms median
  slowest     step 7: 1.50 s, 900 ms of it waiting for data
  waiting     the device waits 200 ms per step, 32% of it
  loader      the process waits for its loader 100 ms per step, 16% of it
  other       1 validation and 1 checkpoint took 3.00 s"""
    page = view._repr_html_()
    for line in str(view).split("\n")[1:]:
        assert re.split(r"\s{2,}", line.strip())[1] in page
    assert "<title>step 1: waiting for data 2.00 s</title>" in page and "first step 4.00 s, warm-up 2 steps" in page


def test_timeline_shows_each_phase_where_it_was():
    run = runs.one(record(*MEASURED))
    course = timeline.laid_out(run)
    assert [(s.what, s.begin, s.end) for s in course.device if s.step == 3] == [
        (what, pytest.approx(begin), pytest.approx(end)) for what, begin, end in
        (("idle", 4.5, 4.6), ("copy", 4.6, 4.6), ("forward", 4.6, 4.7), ("backward", 4.7, 4.9), ("update", 4.9, 5.0))]
    assert course.end == pytest.approx(4.0 + 9 * 0.5 + 2.0)
    taken = shares(course.device, 0.0, course.end, 100)
    whole = {what: sum(row) * course.end / 100 for what, row in taken.items()}
    assert whole["idle"] == pytest.approx(2.0 + 9 * 0.1) and whole["other"] == pytest.approx(2.0)
    assert sum(whole.values()) == pytest.approx(course.end)
    assert all(sum(row[i] for row in taken.values()) == pytest.approx(1) for i in range(100))


def test_many_steps_are_gathered_for_the_picture_of_the_whole_run():
    some = [{"step": number, "seconds": 0.1 + 0.1 * (number % 7 == 0), "loading": 0.02, "idle": 0.01 + 0.1 * (number % 7 == 0),
             "forward": 0.05, "backward": 0.04} for number in range(1, 20_001)]
    begins, now = [], 0.0
    for step in some:
        begins.append(now)
        now += step["seconds"] + 50 * (step["step"] == 10_000)
    course = timeline.Course(some, begins, {9_999: 50.0}, now)
    assert len(course.gathered.steps) == 4_000 and course.part(0, 5).gathered.steps == some[:6]
    for name in ("device", "loader"):
        whole, less = (shares(getattr(each, name), 0.0, now, 440) for each in (course, course.gathered))
        assert whole.keys() == less.keys()
        for kind in whole:
            assert less[kind] == pytest.approx(whole[kind], abs=0.03), kind


def test_timeline_of_chosen_steps():
    page = views.timeline(record(*MEASURED), steps=(3, 4)).page.partition("a few steps in detail")[2]
    assert "steps 3 to 4" in page and "<title>step 3: " in page and "<title>step 4: " in page and "<title>step 1: " not in page
    with pytest.raises(UsageError, match="steps 20 to 30 are not in the record: it has 1 to 10"):
        views.timeline(record(*MEASURED), steps=(20, 30))
    with pytest.raises(UsageError, match="give the first and the last"):
        views.timeline(record(*MEASURED), steps=3)


def test_timeline_labels_the_slowest_step():
    """Steps before it are narrow, so that their labels end where its own begins."""
    for each in range(25, 65, 3):
        run = record(start(total=40), *steps(last=40, seconds=each / 100, idle=0.05, slow=(15, 7.0, 5.0)), end())
        assert ">step 15: 7.00 s</text>" in views.timeline(run).page.partition("around the slowest step")[2], each


def test_timeline_without_phases():
    view = views.timeline(record(start(), *by_hand.whole_steps(), end()))
    assert "first step  4.00 s\n" in str(view) and "its phases were not timed" in view.page


# --- curves ---------------------------------------------------------------------------------------------------------------


def test_curves_by_hand():
    first = {**VALIDATION, "step": 5, "accuracy": 0.75, "loss": 1.5}
    view = views.curves(record(start(), *steps(), first, VALIDATION, end()), by="epoch")
    assert str(view) == """\
curves by epoch: resnet50, 224 px, on NVIDIA H100, 16 cores, torch 2.11.0
run  steps  epochs  training    loss  validation loss  accuracy   best  learning rate
run     10    2.00    12.5 s  2.0000           1.2500     62.5%  75.0%            0.1"""
    for cell in ("2.0000", "1.2500", "62.5%", "75.0%", "12.5 s"):
        assert f">{cell}<" in view.page
    assert "<title>run: validation accuracy 75.0%</title>" in view.page


@pytest.mark.parametrize("by, last", [("step", 10), ("epoch", 2.0), ("time", 8.5)])
def test_curves_have_three_axes(by, last):
    where = curves._positions(runs.one(record(*MEASURED)), by)
    assert where[10] == pytest.approx(last)
    assert views.curves(record(*MEASURED), by=by).page.count("<svg") == 1


def test_curves_of_a_loss_that_is_lost():
    lost = [step | ({"loss": math.nan} if step["step"] >= 4 else {}) for step in steps()]
    view = views.curves(record(start(), *lost, end()))
    assert "run: the loss is not a number at step 4" in str(view) and "not a number" in view.page and "nan" not in view.page
    assert "not a number" in str(view).split("\n")[2]


@pytest.mark.parametrize(("at", "anchor"), [(2, ""), (50, "end")])
def test_words_beside_a_lost_loss_are_inside_of_the_figure(at, anchor):
    lost = [step | ({"loss": math.nan} if step["step"] >= at else {}) for step in steps(last=60)]
    page = views.curves(record(start(total=60), *lost, end())).page
    x, found = re.search(r'<text x="([\d.]+)"[^>]*?(?:text-anchor="(\w+)")?[^>]*>not a number<', page).groups()
    found = re.search(r'text-anchor="(\w+)"[^>]*>not a number<', page)
    assert (found[1] if found else "") == anchor and 56 < float(x) < 436 - 80 * (not anchor)


def test_curves_say_what_is_above_the_axis():
    far = {**VALIDATION, "loss": 42.125}
    view = views.curves(record(start(total=60), *steps(last=60, loss=2.5), far, end()))
    assert "42.1250" in str(view) and "<title>run: validation loss 42.1250</title>" in view.page
    assert ">42.1250</text>" in view.page and "arrows: above the axis" in view.page
    near = views.curves(record(*MEASURED)).page
    assert "<title>run: validation loss 1.2500</title>" in near and "arrows" not in near
    jumps = [step | ({"loss": 900.0 + step["step"]} if step["step"] in (120, 121) else {}) for step in steps(last=200)]
    assert "<title>run: training loss 1,021</title>" in views.curves(record(start(total=200), *jumps, end())).page


def test_validations_far_above_do_not_flatten_the_training():
    """Of a short training with three of them: batch norm's statistics have not settled yet."""
    trained, validated = [3.0, 4.7, 5.9, 5.3, 3.4, 4.6], [754.9, 4688.0, 633.1]
    low, top = curves._range("loss", trained, validated)
    assert low < 3.0 and 5.9 <= top < 8
    assert curves._range("loss", trained, [9.0])[1] > 9  # this one is worth its place
    assert curves._range("loss", [], validated)[1] > 700


def test_one_step_is_a_dot():
    page = views.curves(record(start(total=60), *steps(last=1))).page
    assert page.count('r="3"') == 3 and " steps</text>" not in page
    assert [">0.5<" in page, ">1<" in page] == [False, True]  # there is no half step


@pytest.mark.parametrize(("loss", "said"), [(2.30259, "2.3026"), (999.5, "999.5000"), (12345.6, "12,346"), (1e30, "1e+30")])
def test_a_loss_that_grows_can_still_be_read(loss, said):
    page = views.curves(record(start(total=60), *steps(last=5, loss=loss), end())).page
    assert f">{said}<" in page and "00000" not in page


def test_words_on_a_colour_have_contrast():
    """At least 4.5 to 1, as WCAG asks for."""
    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        return sum(weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
                   for weight, part in zip((0.2126, 0.7152, 0.0722), parts))

    for colour in (*palette.PHASE.values(), *palette.RUNS, palette.SPEED, palette.COLLECTIVE, palette.SYNC):
        light = 1.0 if palette.on(colour) == "#fff" else 0.0
        bright, dark = sorted((luminance(colour), light), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, colour


def test_small_words_in_figures_have_the_colour_of_the_page():
    lost = [step | ({"loss": math.nan} if step["step"] >= 4 else {}) for step in steps()]
    page = views.curves(record(start(), *lost, end())).page + views.memory_sweep(sweep(64, 128, 1024)).page
    assert "not a number" in page and "out of memory" in page
    assert set(re.findall(r'<text [^>]*fill="([^"]+)"', page)) == {"currentColor"}


def test_wide_figures_are_scrolled_and_not_shrunk_until_nobody_can_read_them():
    page = views.timeline(record(*MEASURED)).page
    assert page.count('<div style="overflow-x: auto"><svg') == page.count("<svg") == page.count("min-width: 640px")
    assert "min-width: 640px" not in views.dashboard(record(*MEASURED)).page


def test_equal_curves_are_seen_and_said(tmp_path):
    first, second = folder(tmp_path / "a-001", MEASURED), folder(tmp_path / "b-001", MEASURED)
    other = folder(tmp_path / "c-001", [start(), *steps(lr=0.3, loss=1.75), end()])
    view = views.curves(first, other, second)
    assert str(view).split("\n")[5:] == ["b-001: the losses equal those of a-001, so the curves coincide"]
    colours = [palette.RUNS[i] for i in range(3)]
    dashes = [re.findall(rf'stroke="{colour}" stroke-width="2"[^>]*?stroke-dasharray="([^"]+)"', view.page) for colour in colours]
    assert dashes == [[], ["20 10"], ["10 10", "10 20", "10 10"]]  # loss, accuracy (that of all three is the same), learning rate
    assert f'r="6.5" fill="{colours[0]}"' in view.page and f'r="4" fill="{colours[2]}"' in view.page


def test_curves_of_several_models_say_so():
    view = views.curves(record(*MEASURED), record(start(model="resnet18"), *steps(), end()))
    assert str(view).startswith("curves by step: resnet50 or resnet18, 224 px, on NVIDIA H100, 16 cores")
    assert "resnet50 or resnet18, 224 px" in view.page


def test_curves_say_what_is_wrong():
    assert "run: no step is recorded (unknown)" in str(views.curves(record()))
    with pytest.raises(UsageError, match="curves go by step, epoch, time"):
        views.curves(record(*MEASURED), by="hour")


# --- comparison -----------------------------------------------------------------------------------------------------------


def runs_to_compare(tmp_path):
    return [folder(tmp_path / "gpu-001", [start(), *steps(seconds=1.0, idle=0.2), end(gb=30.0, power=500.0)]),
            folder(tmp_path / "amp-001", [start(amp="bf16"), *steps(), end(gb=12.0)]),
            folder(tmp_path / "big-001", [start(amp="bf16", batch_size=512), *steps(last=1), OUT_OF_MEMORY])]


def test_compare_by_hand(tmp_path):
    table = views.compare(runs_to_compare(tmp_path))
    assert str(table) == """\
comparison of 3 runs, ratios to gpu-001
run      state          batch size  amp   images/s  ratio  10 % ms  median ms  90 % ms  waiting    GB      W  J/image
gpu-001  completed              64  -          128  1.00x    1,000      1,000    1,000      20%  30.0    500     4.69
amp-001  completed              64  bf16       256  2.00x      500        500      500      20%  12.0  1,200     4.69
big-001  out of memory         512  bf16         -      -        -          -        -        -     -      -        -"""
    for row in str(table).split("\n")[2:]:
        for cell in re.split(r"\s{2,}", row):
            assert f">{cell}</td>" in table.page
    assert [row["ratio"] for row in table.rows] == [1.0, pytest.approx(2.0), None]


def varied(name: str, seconds: list[float], **args) -> records.Record:
    """64 images a step, each as long as it says; the first two warm up."""
    found = [step | {"seconds": took} for step, took in zip(steps(last=len(seconds) + 2, images=64), [1.0, 1.0, *seconds])]
    return record(start(run_dir=name, **args), *found, end())


def test_compare_shows_how_steps_vary():
    """Of 0.9, 1.0 … s the middle is 1.0, and the 10th and 90th percentile 0.9 and 1.1: ±10 %."""
    base, near = varied("a", [0.9, 1.0, 1.0, 1.0, 1.1] * 2), varied("b", [0.95, 1.0, 1.0, 1.0, 1.0] * 2, amp="bf16")
    table = views.compare(base, near, varied("c", [0.5] * 10, amp="fp16"), varied("d", [1.0, 3.0]))
    assert [[row[name] for name in ("low_ms", "median_ms", "high_ms")] for row in table.rows] == [
        [900, 1000, 1100], [950, 1000, 1000], [500, 500, 500], [None, 2000, None]]
    assert [row["variation"] for row in table.rows] == [pytest.approx(0.1), pytest.approx(0.025), 0.0, None]
    assert "b differs from a by 1%, less than single steps do (±10%): repeat both runs before you believe it" in table.notes
    assert not any(note.startswith("c differs") for note in table.notes)
    whisker = re.search(r'<path d="M([\d.]+) [\d.]+H([\d.]+)" fill="none" stroke="currentColor" stroke-width="2"', table.page)
    bar = re.search(r'd="M([\d.]+) [\d.]+H([\d.]+)V[^"]*"[^>]*><title>a: 64.0', table.page)
    spread, length = (float(found[2]) - float(found[1]) for found in (whisker, bar))
    assert spread / length == pytest.approx((71.1 - 58.2) / 64, abs=0.01), "64 images in 0.9 s, and in 1.1 s"
    assert "whiskers: 8 of 10 steps" in table.page and ">64.0 images/s, 1.00x</text>" in table.page


def test_compare_by_other_measures(tmp_path):
    first = [start(), {"event": "step", "step": 1, "seconds": 9.0, "images": 64, "warmup": True, "memory_with_workers": 3.2e9},
             *(step | {"step": step["step"] + 1, "loading": 0.125} for step in steps(seconds=1.0)), end(gb=30.0)]
    runs = [folder(tmp_path / "off-001", first), folder(tmp_path / "more-001", [start(num_workers=2), *steps(), end(gb=12.0)])]
    table = views.compare(runs, measures=["images_per_second", "loading_ms", "first_step_s", "with_workers_gb"])
    lines = [re.split(r"\s{2,}", line) for line in str(table).split("\n")[1:]]
    assert lines[0] == ["run", "num workers", "images/s", "loading ms", "first step s", "GB with workers"]
    assert lines[1][2:] == ["128", "125", "9.00", "3.20"]
    sorted_ = table.sort("GB with workers", descending=False)
    assert sorted_.measures == table.measures and sorted_.rows[0]["run"] == "off-001"
    assert table.sort("first step s").rows[0]["run"] == "more-001"
    assert "GB with workers" not in str(views.compare(runs))
    with pytest.raises(UsageError, match="there is no measure 'speed': They are images_per_second, ratio, low_ms"):
        views.compare(runs, measures=["speed"])


def test_compare_sorts_the_best_first_and_the_unknown_last(tmp_path):
    table = views.compare(runs_to_compare(tmp_path))
    assert [row["run"] for row in table.sort("images/s").rows] == ["amp-001", "gpu-001", "big-001"]
    assert [row["run"] for row in table.sort("memory_gb").rows] == ["amp-001", "gpu-001", "big-001"]
    assert [row["run"] for row in table.sort("run", descending=True).rows] == ["gpu-001", "big-001", "amp-001"]
    assert [row["run"] for row in table.sort("median ms", descending=True).rows] == ["gpu-001", "amp-001", "big-001"]
    with pytest.raises(UsageError, match="there is no column 'speed': Sort by run, state, batch_size, amp, images_per_second"):
        table.sort("speed")


def test_compare_as_csv(tmp_path):
    table = views.compare(runs_to_compare(tmp_path))
    path = table.csv(tmp_path / "runs.csv")
    found = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["run"] for row in found] == ["gpu-001", "amp-001", "big-001"]
    assert float(found[1]["images_per_second"]) == pytest.approx(256) and found[1]["amp"] == "bf16" and found[2]["ratio"] == ""
    assert table.csv() == path.read_text()
    with pytest.raises(UsageError, match="cannot write"):
        table.csv(tmp_path / "no/such/folder.csv")


def test_compare_with_many_switches_and_things_unlike(tmp_path):
    runs = [record(start(), *steps()), record(start(model="resnet18", amp="bf16", channels_last=True, lr=0.2), *steps())]
    table = views.compare(runs)
    assert "model resnet18, lr 0.2, amp bf16, channels last" in str(table)
    assert "run is not comparable with run: model resnet18 here, resnet50 there" in str(table) and table.rows[1]["ratio"] is None


def test_compare_against_another(tmp_path):
    found = runs_to_compare(tmp_path)
    assert views.compare(found[:1], against=found[1]).rows[0]["ratio"] == pytest.approx(0.5)


def test_compare_says_with_what_where_that_is_no_row(tmp_path):
    found = runs_to_compare(tmp_path)
    two = folder(tmp_path / "two-001", [start(world=4, lr=0.2), *steps(images=256), end()])
    table = views.compare(found[:2], against=two)
    assert str(table).startswith("comparison of 2 runs, ratios to two-001\n")
    assert table.notes == ["baseline two-001: lr 0.2, amp off, processes 4, 512 images/s"]
    assert table.notes[0] in table.page and not views.compare(found[:2], against=found[0]).notes
    early = folder(tmp_path / "early-001", [start(), *steps(last=2)])
    assert "baseline early-001: no step of it was timed" in str(views.compare(found[0], against=early))


def test_compare_with_runs_that_recorded_nothing(tmp_path):
    first = runs_to_compare(tmp_path)[0]
    wrong = job(tmp_path / "wrong-001", None, "FAILED", "train.py: unrecognized arguments: --nosuch")
    never = job(tmp_path / "never-001", [], "CANCELLED")
    table = views.compare(first, wrong, never)
    assert table.notes == ["wrong-001: nothing is recorded (failed: train.py: unrecognized arguments: --nosuch)",
                           "never-001: nothing is recorded (cancelled)"]
    table = views.compare(first, against=wrong)
    assert str(table).startswith("comparison of 1 run, no ratios to wrong-001\n") and "128" in str(table)
    assert table.notes == ["baseline wrong-001: nothing is recorded "
                           "(failed: train.py: unrecognized arguments: --nosuch)"]
    part = record({"event": "start", "model": "resnet50", "machine": by_hand.GPU}, *steps())
    assert "run is not comparable with gpu-001: image size not recorded here, 224 there" in str(views.compare(first, part))
    assert "None" not in str(views.compare(wrong, never, part)) + str(views.dashboard(first, against=part))


def test_compare_says_what_the_table_holds(tmp_path):
    found = runs_to_compare(tmp_path)
    assert str(views.compare(found, measures="power_w")).startswith("comparison of 3 runs\nrun  ")
    assert views.compare(found, measures="power_w").measures == ["power_w"]
    assert "comparison of 3 runs</div>" in views.compare(found, measures=["loading_ms"]).page.lower()
    assert "nothing of that was measured" in str(views.compare(found, measures=["with_workers_gb"]))
    assert str(views.compare(found[2])).startswith("comparison of 1 run, nothing was timed\n")
    with pytest.raises(UsageError, match="there is no measure 'power'"):
        views.compare(found, measures="power")
    table = views.compare(found[:2], against=folder(tmp_path / "no-001", []))
    assert str(table.sort("images/s")).startswith("comparison of 2 runs, no ratios to no-001\n")


def test_a_state_has_the_dashboards_colour_in_a_comparison(tmp_path):
    states = ("RUNNING", "PENDING", "CANCELLED", "TIMEOUT", "FAILED", "NODE_FAIL", "COMPLETED")
    jobs = [job(tmp_path / f"{state.lower()}-001", MEASURED[:-1], state) for state in states]
    page = views.compare(jobs).page
    colours = re.findall(r"background: (#\w+)[^>]*></span>([a-z ]+)</td>", page)
    assert colours == [(dashboard.COLOURS.get(state, palette.BAD), state.lower().replace("_", " ")) for state in states]


def test_compare_is_sortable_where_there_are_widgets(tmp_path, monkeypatch):
    table = views.compare(runs_to_compare(tmp_path))
    assert set(table._repr_mimebundle_()) == {"text/plain", "text/html"}  # no notebook here
    ipywidgets = pytest.importorskip("ipywidgets")
    monkeypatch.setattr(sys.modules["dlojz.views.compare"], "plain_wanted", lambda: False)
    bundle = table._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and bundle["text/html"] == table._repr_html_()
    from dlojz.ui.sortable import sortable

    choice, shown = sortable(table).children
    assert isinstance(choice, ipywidgets.Dropdown)
    choice.value = "images_per_second"
    assert shown.value.index(">amp-001<") < shown.value.index(">gpu-001<")
    choice.value = ""
    assert shown.value.index(">gpu-001<") < shown.value.index(">amp-001<")
    choice, shown = sortable(table.sort("images/s")).children  # what it was sorted by is what it says
    assert choice.label == "images/s" and shown.value.index(">amp-001<") < shown.value.index(">gpu-001<")


# --- report ---------------------------------------------------------------------------------------------------------------


def test_report_of_one_and_of_several(tmp_path):
    one = views.report(record(*MEASURED))
    assert [type(view).__name__ for view in one.views] == ["View"] * 3 and "timeline of run" in str(one)
    several = views.report(runs_to_compare(tmp_path), against=runs_to_compare(tmp_path / "again")[0])
    dashboards = [f"dashboard of {name}-001" for name in ("gpu", "amp", "big")]
    assert [view.title for view in several.views] == ["comparison of 3 runs", "curves by step", *dashboards]
    assert "memory and speed against the batch size" in [view.title for view in views.report(sweep(64, 128)).views]
    assert "memory and speed" not in str(views.report(sweep(64), record(*MEASURED)))


def long(page: str, tip: str) -> float:
    """The length of a bar in pixels, by what the pointer shows there."""
    begin, until = re.search(rf'd="M([\d.]+) [\d.]+H([\d.]+)V[^"]*"[^>]*><title>{tip}', page).groups()
    return float(until) - float(begin)


def test_bars_of_a_report_have_one_scale(tmp_path):
    found = runs_to_compare(tmp_path)[:2]  # 128 and 256 images/s; the device alone 160 and 320
    first, second = (view.page for view in views.report(found).views[2:])
    assert long(second, "this run: 256") == pytest.approx(2 * long(first, "this run: 128"), rel=0.01)
    assert long(second, "device alone: 320") == pytest.approx(2 * long(first, "device alone: 160"), rel=0.01)
    alone = views.dashboard(found[0]).page  # which has its own scale
    assert long(alone, "device alone: 160") == pytest.approx(long(second, "device alone: 320"), rel=0.01)
    fast = folder(tmp_path / "fast-001", [start(), *steps(seconds=0.125, idle=0.0), end()])
    for view, speed in zip(views.report(found, against=fast).views[2:], (128, 256)):  # 1,024 images/s
        assert long(view.page, "fast-001: 1,024") == pytest.approx(1024 / speed * long(view.page, f"this run: {speed}"), rel=0.02)


def test_report_is_one_page_that_opens_offline(tmp_path):
    shown = views.timeline(record(*MEASURED))
    page = views.report(shown, runs_to_compare(tmp_path), html=tmp_path / "report.html")
    written = (tmp_path / "report.html").read_text()
    assert written.count("<section>") == 6 and all(view._repr_html_() in written for view in page.views)
    assert not re.search(r"<(script|link|img|iframe)|url\(|@import|src=", written)
    assert set(re.findall(r"https?://[^\"']+", written)) == {"http://www.w3.org/2000/svg"}
    with pytest.raises(UsageError, match=r"cannot write .*no/report.html"):
        page.save(tmp_path / "no/report.html")
    with pytest.raises(UsageError, match="nothing to report"):
        views.report()


def test_report_in_a_shell(tmp_path, monkeypatch):
    runs_to_compare(tmp_path)

    def shell(*words):
        return subprocess.run([sys.executable, "-m", "dlojz.cli", "report", *words], cwd=tmp_path, capture_output=True, text=True)

    ran = shell("amp-001", "--against", "gpu-001")
    assert ran.returncode == 0 and "2.00x the 128 images/s of gpu-001" in ran.stdout, ran.stderr
    ran = shell("amp-001", "gpu-001", "--html", "page.html")
    assert ran.returncode == 0 and ran.stdout == "The report is page.html\n"
    assert "<svg" in (tmp_path / "page.html").read_text()
    ran = shell("./nowhere")
    assert ran.returncode == 2 and ran.stderr.startswith("dlojz: there is no") and ran.stderr.count("\n") == 1


# --- all of them ----------------------------------------------------------------------------------------------------------

WRONG = [None, "text", -1, [], {}, True, 1e400, "nan"]


def broken() -> dict[str, list[dict] | str | None]:
    """Records that are empty, torn, edited by hand or written by a bug."""
    bare = [{"event": "start"}, {"event": "step", "step": 1}, {"event": "validation", "step": 1}, {"event": "end"}]
    found: dict = {"no record": None, "empty": [], "start only": [start()], "bare start": bare[:1], "end only": [end()],
                   "bare events": bare,
                   "steps only": steps(), "nothing timed": [start(), *steps(last=2)], "one step": [start(), *steps(last=1)],
                   "no time passed": [start(), *steps(seconds=0.0, idle=0.0), end()],
                   "no images": [start(), *steps(images=0), end()],
                   "bare error": [start(), {"event": "error"}, end("failed")], "not JSON": "\x00\xff garbage\n{\n",
                   "other events": [{"event": "surprise", "step": "x"}, *MEASURED]}
    for number, value in enumerate(WRONG):
        for which in (0, 3, 11, 12):  # start, a step, the validation, the end
            events = json.loads(json.dumps(MEASURED))
            for name in events[which]:
                if name not in ("event", "step"):
                    events[which][name] = value
            found[f"{events[which]['event']} of {number}"] = events
        events = json.loads(json.dumps(MEASURED))
        for table in ("args", "machine", "versions"):
            events[0][table] = dict.fromkeys(events[0][table], value)
        found[f"tables of {number}"] = events
    return found


@pytest.mark.parametrize(("view", "every"), [(view, 12 if view == "report" else 3) for view in ALL]  # it is made of the others
                         + [pytest.param(view, 1, marks=pytest.mark.long) for view in ALL])
def test_no_record_ends_in_a_traceback(tmp_path, view, every):
    for number, (name, events) in list(enumerate(broken().items()))[::every]:
        path = folder(tmp_path / f"x-{number:03}", events if isinstance(events, list) else None)
        if isinstance(events, str):
            (path / "record.jsonl").write_bytes(events.encode("latin1"))
        try:
            shown = ALL[view](path)
            assert str(shown).strip() and shown._repr_html_(), name
        except UsageError as error:
            assert "\n" not in str(error), name
        except Exception as error:
            raise AssertionError(f"{view} of {name}: {error!r}") from error


def test_a_torn_end_and_an_unreadable_record_are_said(tmp_path):
    torn = folder(tmp_path / "torn-001", [], more='{"event": "sta')
    assert "nothing is recorded (1 torn line)" in str(views.dashboard(torn))
    whole = folder(tmp_path / "whole-001", MEASURED[:-1], more='{"event": "end", "status": "comp')
    assert "256 images/s" in str(views.dashboard(whole)) and "not finished" in str(views.dashboard(whole))
    odd = folder(tmp_path / "odd-001", None)
    (odd / "record.jsonl").mkdir()
    assert "its record cannot be read: Is a directory" in str(views.dashboard(odd))


@pytest.mark.parametrize("view", ALL)
def test_a_run_of_ten_thousand_steps_takes_two_seconds_at_most(tmp_path, view):
    validations = [{**VALIDATION, "step": step} for step in range(1000, 10001, 1000)]
    path = folder(tmp_path / "long-001", [start(total=10_000), *steps(last=10_000), *validations, end()])
    took, limit = [], 5 if view == "report" else 2  # three views
    for _ in range(3):  # the machine may be busy with other things
        begun = time.process_time()
        shown = ALL[view](path)
        page = shown._repr_html_()
        took.append(time.process_time() - begun)
        if took[-1] < limit:
            break
    assert min(took) < limit and len(page) < 600_000
    assert "10,000" in str(shown) or view in ("memory_sweep", "compare")


def test_views_are_quick_to_import_and_need_nothing():
    code = """
import sys, dlojz
from dlojz import views
assert dlojz.views is views and callable(views.dashboard)
print([name for name in ("torch", "matplotlib", "numpy", "IPython", "ipywidgets") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr


def test_a_phase_has_one_colour_in_all_views():
    colours = palette.PHASE
    assert len(set(colours.values())) == len(colours)
    for shown in (views.dashboard(record(*MEASURED)), views.timeline(record(*MEASURED))):
        for phase in ("idle", "forward", "backward", "update"):
            assert f'fill="{colours[phase]}"' in shown.page


def test_runs_that_have_not_begun(tmp_path):
    """What there is to say of them is said of each, and nothing else."""
    waiting = [folder(tmp_path / f"wait-00{number}", [], {"state": "CANCELLED", "reason": "", "exit_code": 1})
               for number in (1, 2)]
    assert str(views.curves(waiting)).startswith("curves by step: wait-001, wait-002\n")
    assert str(views.scaling(waiting)).split("\n")[1:] == [
        f"  wait-00{number} is left out: nothing is recorded (cancelled)." for number in (1, 2)]
    broke = [folder(tmp_path / f"big-00{number}", [OUT_OF_MEMORY], {"state": "OUT_OF_MEMORY", "reason": "", "exit_code": 1},
                    request={"name": "big", "command": ["train.py", "-b", "64"], "site": "laptop", "seconds": 600})
             for number in (1, 2)]
    assert str(views.memory_sweep(broke)).split("\n")[0] == "memory and speed against the batch size"


@pytest.mark.parametrize(("seed", "count"), [(1, 20), pytest.param(2, 300, marks=pytest.mark.long)])
def test_values_that_no_run_writes_are_survived(seed, count):
    """A file that somebody edited, or that a bug wrote: each number may be anything that JSON can hold."""
    odd = [None, True, -1, 0, 1e308, 1e-320, 10**400, 1e39, -1e39, math.nan, math.inf, "x", [], {"a": 1}]
    chance = random.Random(seed)
    good = record(*MEASURED)
    for number in range(count):
        events = copy.deepcopy(MEASURED)
        for _ in range(chance.choice((1, 3, 20))):
            event = chance.choice(events)
            inside = event["args"] if isinstance(event.get("args"), dict) and chance.random() < 0.5 else event
            inside[chance.choice(list(inside))] = chance.choice(odd)
        if number % 10 == 0:  # or all steps alike
            name, value = chance.choice(("seconds", "images", "lr", "loss", "idle")), chance.choice(odd)
            events = [event | {name: value} if event.get("event") == "step" else event for event in events]
        events = [event for event in events if isinstance(event.get("event"), str)]
        for show in (views.dashboard, views.timeline, views.curves, views.memory_sweep, views.scaling):
            view = show(record(*events))
            assert str(view)
            if number % 4 == 0:  # a page takes longer than its text
                assert "nan" not in view.page and "inf " not in view.page, (number, show)
        assert str(views.compare(good, record(*events)))


def test_steps_that_take_no_time():
    assert "0.00 ms" in str(views.timeline(record(start(), *steps(seconds=0.0, idle=0.0, slow=(1, 0.0, 0.0))[1:], end())))


def test_the_slowest_step_is_the_same_in_text_and_picture():
    twice = [step | ({"seconds": 3.0} if step["step"] in (40, 90) else {}) for step in steps(last=120)]
    view = views.timeline(record(start(total=120), *twice, end()))
    assert "slowest     step 40: 3.00 s" in str(view)
    assert ">step 40: 3.00 s</text>" in view.page and "step 90: 3.00" not in view.page
