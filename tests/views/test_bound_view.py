"""`views.bound`: the same numbers in text and picture, from traces made by hand."""

import json
import sys

import pytest
from runs_by_hand import folder, record, start, steps

from dlojz import views
from dlojz.system.errors import UsageError
from dlojz.traces.roofs import Roof

CONVOLUTION = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
ROOF = Roof("a slow GPU", {"float": 1e9, "bfloat16": 2e9}, 1e8, rates={"convolution": (0.5, 0.5)})


def trace_of(file, batch, compiled=False, last=10_000):
    """Two steps of 20 ms, with a convolution (10 ms; in the last one, ``last`` µs) and a ReLU (5 ms) in bfloat16."""
    events = []
    for number in range(2):
        begin = 1000.0 + 20_000 * number
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1, "ts": begin,
                       "dur": 20_000.0})
        if compiled:
            continue
        for name, dims, types, concrete, at, took in (
                ("aten::convolution", [[batch, 8, 16, 16], [8, 8, 3, 3]], ["c10::BFloat16"] * 2, CONVOLUTION, 100,
                 (10_000, last)[number]),
                ("aten::clamp_min_", [[batch, 8, 16, 16], []], ["c10::BFloat16", "Scalar"], [], 12_000, 5_000)):
            events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": begin + at, "dur": took,
                           "args": {"Input Dims": dims, "Input type": types, "Concrete Inputs": concrete}})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"traceEvents": events}))
    return file


def test_numbers_by_hand(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["dlojz.views.bound"], "_here", lambda: ROOF)
    text = str(views.bound(trace_of(tmp_path / "trace.json", 4)))
    # 2 x 4 x 256 x 8 x 72 = 1.18 MFLOP: 0.59 ms; the ReLU moves 2 x 16,384 bytes: 0.328 ms; the convolution 33.9 kB: less
    assert "arithmetic  1.18 MFLOP per step" in text and "at least 0.92 ms per step" in text
    assert "took        20.0 ms per step" in text and "reached     5% of what the roofline allows, 3% of the peak" in text
    view = views.bound(tmp_path / "trace.json")
    assert "5% of what the roofline allows" in view.page and "<svg" in view.page


def test_on_another_device_nothing_is_said_to_have_taken_time(tmp_path):
    text = str(views.bound(trace_of(tmp_path / "trace.json", 4), on=ROOF))
    assert "a slow GPU" in text and "took" not in text
    assert "expected    1.51 ms per step" in text  # 0.59 / 0.5 + 0.328


def test_another_batch_size_takes_two_runs(tmp_path):
    runs = []
    for batch in (4, 8):
        made = folder(tmp_path / f"run{batch}", record(start(batch_size=batch, world=1), *steps()).events)
        trace_of(made / "trace.json", batch)
        runs.append(made)
    text = str(views.bound(*runs, on=ROOF, batch=40))
    assert "arithmetic  11.8 MFLOP per step" in text and "at least 9.18 ms per step, 4,360 images/s" in text
    for wrong in ({}, {"batch": None}):
        with pytest.raises(UsageError, match="one run, or two"):
            views.bound(*runs, **wrong)
    with pytest.raises(UsageError, match="no roofline for 'a toaster'"):
        views.bound(runs[0], on="a toaster")


def test_a_compiled_run_has_no_operators(tmp_path):
    with pytest.raises(UsageError, match="without --compile"):
        views.bound(trace_of(tmp_path / "trace.json", 4, compiled=True), on=ROOF)


def test_a_trace_has_flops_beside_time(tmp_path):
    """Of the same steps as the table by operator: those of a class have the time of its operators."""
    view = views.trace(trace_of(tmp_path / "trace.json", 4, last=6_000))
    assert "40% aten::convolution (8.00 ms" in str(view)
    assert "FLOPs and time  convolution 99% and 40%, pointwise 0.7% and 25%" in str(view)
    assert "share of a step" in view.page
