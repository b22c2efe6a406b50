"""What a diagnosis says to try: never what the run had already, and always two things."""

import json
import shutil

import pytest
from simulated_gpu import Gpu
from test_simulated_gpu import CASES, STEPS

from dlojz import traces, views
from dlojz.traces.advice import CALLS, Try, is_on, turned_on

ALL = turned_on({"amp": "bf16", "tf32": True, "channels_last": True, "fused": True, "compile": "reduce-overhead",
                 "pin_memory": True, "non_blocking": True, "persistent_workers": True, "num_workers": 8})


def test_which_switches_are_on():
    args = {"amp": "bf16", "compile": "default", "fused": False, "augment": "none", "num_workers": 4, "data": "photos", "lr": 0.1}
    on = turned_on(args, unwritten=["num_workers"])
    assert is_on("--amp bf16", on) and is_on("--amp fp16", on) and is_on("--compile", on)
    assert not any(is_on(switch, on) for switch in ("--compile reduce-overhead", "--fused", "--augment", "--num-workers"))


def test_what_is_on_is_not_said():
    both = Try("fewer passes", ("--compile", "--fused"))
    assert both.said() == "fewer passes: --compile, --fused"
    assert both.said(turned_on({"fused": True})) == "fewer passes: --compile"
    assert both.said(turned_on({"fused": True, "compile": "default"})) == ""
    assert Try("more GPUs").said(ALL) == "more GPUs"


def test_a_script_without_the_switch_is_told_the_call():
    try_ = Try("half as many bytes, or a larger --batch-size", ("--amp bf16", "--compile reduce-overhead", "--tf32"))
    calls = ('half as many bytes, or a larger batch size: torch.autocast(device.type, dtype=torch.bfloat16), '
             'torch.compile(model, mode="reduce-overhead"), torch.set_float32_matmul_precision("high")')
    assert try_.said(has=frozenset()) == calls
    assert try_.said(has=frozenset(["--tf32", "--amp"])) == (
        'half as many bytes, or a larger batch size: --amp bf16, torch.compile(model, mode="reduce-overhead"), --tf32')
    assert "--" not in Try("", tuple(CALLS)).said(has=frozenset())


@pytest.mark.parametrize(("pattern", "program"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_with_everything_on_two_things_are_left(tmp_path, pattern, program):
    gpu = Gpu().steps(STEPS, program)
    facts = traces.analyse(traces.read(gpu.write(tmp_path / "trace.json.gz")))
    with_nothing, with_all = traces.diagnose(facts).next, traces.diagnose(facts, ALL).next
    assert len(with_all) == 2 == len(set(with_all)) == len(set(with_nothing))
    assert not any(f"{switch}" in text for text in with_all for switch in ("--amp", "--fused", "--channels-last", "--pin-memory"))


def test_a_view_knows_the_switches_of_its_run(tmp_path):
    [program] = [program for pattern, program in CASES if pattern == "memory_bandwidth"][:1]
    folder = tmp_path / "run"
    folder.mkdir()
    file = Gpu().steps(STEPS, program).write(folder / "trace.json.gz")
    plain = shutil.copy(file, tmp_path / "alone.json.gz")
    start = {"event": "start", "args": {"amp": "bf16", "fused": True, "compile": "off"}, "world_size": 1}
    (folder / "record.jsonl").write_text(json.dumps(start) + "\n" + json.dumps({"event": "end", "status": "completed"}) + "\n")
    foreign = views.trace(plain).text.split("diagnosis:")[1]  # nobody knows which switches its script has
    assert "torch.autocast" in foreign and "torch.compile(model)" in foreign and "--" not in foreign
    for shown in (views.trace(folder), views.trace(folder / "trace.json.gz")):
        said = shown.text.split("diagnosis:")[1]
        assert "try 2" in said and "--amp" not in said and "--fused" not in said and "--compile" in said
