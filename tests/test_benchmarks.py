"""The benchmarks run, and the pages say what is kept. What they measure is no test: that depends on the machine."""

import argparse
import json
import math
import os
import signal
import subprocess
import sys

import pytest
import torch

from dlojz.benchmarks import (
    compiling,
    day2,
    day3,
    hardware,
    ladder,
    language,
    memory,
    pages,
    parallel,
    quantizing,
    runs,
    searching,
    several,
)
from dlojz.labs.memory import figures as memory_figures
from dlojz.labs.optimizers import updates
from dlojz.system import paths
from dlojz.system.errors import UsageError
from dlojz.training.records import Record

SMALL = ["--model", "resnet18", "--image-size", "32", "--batch-size", "2"]


def row(name, processes, speed, **more):
    return {"name": name, "processes": processes, "images_per_second": speed, "step_ms": 10.0,
            "phases_ms": {"idle": 2.5, "copy": 0.4}, "first_step_ms": 1500.0, "error": None, **more}


FOUND = {"suite": "scaling", "date": "2026-01-31", "model": "resnet50", "image_size": 224, "batch_size": 64, "common": "--fused",
         "processes": 4, "machine": {"gpu": "NVIDIA H100", "cores_allowed": 16}, "versions": {"torch": "2.11.0"},
         "rows": [row("1 process", 1, 1000.0), row("2 processes", 2, 1900.0), row("4 processes", 4, None, error="out_of_memory")]}


def test_a_table_by_hand():
    assert day2.table(FOUND).splitlines() == [
        "NVIDIA H100, 16 cores, torch 2.11.0, 2026-01-31: resnet50, 224 px, 64 images per process, `--fused`.",
        "",
        "| more processes, same batch per process | images/s | efficiency | ms per step | waiting for data | copying, ms | "
        "first step, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| 1 process | 1,000 | 1.000 | 10.0 | 25% | 0.4 | 1.5 |",
        "| 2 processes | 1,900 | 0.950 | 10.0 | 25% | 0.4 | 1.5 |",
        "| 4 processes | out_of_memory | | | | | |",
    ]


def test_what_is_kept_is_read_back(tmp_path):
    file = day2.keep(FOUND, tmp_path)
    assert file.name == "scaling-4x-nvidia-h100.json" and json.loads(file.read_text()) == FOUND


def test_the_page_says_what_is_kept():
    text = day2.PAGE.read_text()
    assert day2.page(text, day2.RESULTS) == text, "python -m dlojz.benchmarks.day2 --page"
    assert set(day2.MARK.findall(text)) and {suite for _, suite, _ in day2.MARK.findall(text)} == set(day2.SUITES)


def test_each_kept_result_is_on_a_page():
    kept = {file.name.split("-")[0] for file in day2.RESULTS.glob("*.json")}
    shown = {suite for page in day2.PAGE.parent.glob("*.md") for _, suite, _ in day2.MARK.findall(page.read_text())}
    others = {f"compile_{part}" for part in compiling.PARTS} | {f"hpo_{part}" for part in searching.PARTS}
    assert kept <= shown | others


def test_the_page_and_the_lab_on_memory_say_what_is_kept():
    found = json.loads(next(day2.RESULTS.glob("memory-*.json")).read_text())
    text = memory.PAGE.read_text()
    assert memory.page(text, memory.RESULTS) == text, "python -m dlojz.benchmarks.memory --page"
    rows = [row for row in found["predictions"] if row["command"].startswith("train")]
    assert len(rows) >= 16 and "All counts are within 3 %" in text
    for row in rows:
        assert abs(row["predicted"] / row["measured"] - 1) < 0.03, row["command"]
    shown = memory_figures.recorded()
    assert all(f"{row['bytes'] / 1e9:.2f}" in shown.text for row in found["techniques"])
    assert ">7.87 GB, 142 ms<" in shown._repr_html_()


def test_the_page_on_the_language_model_says_what_is_kept():
    text = language.PAGE.read_text()
    assert language.page(text, language.RESULTS) == text, "python -m dlojz.benchmarks.language --page"
    found = json.loads(next(language.RESULTS.glob("language-*.json")).read_text())["rows"]
    assert found["whole"]["tokens_per_second"] > 1.10 * language.NANOGPT


def test_rows_of_the_language_model_stay_until_they_are_measured_anew(tmp_path):
    args = argparse.Namespace(out=tmp_path, model="1m", length=64, vocabulary=320, steps=3, rows=2)
    for rows in ({"whole": {"step_ms": 2.0}, "text": {"step_ms": 3.0}}, {"eager": {"step_ms": 4.0}, "whole": {"step_ms": 1.0}}):
        file = language.keep(rows, args)
    found = json.loads(file.read_text())["rows"]
    assert [(name, row["step_ms"]) for name, row in found.items()] == [("eager", 4.0), ("whole", 1.0), ("text", 3.0)]
    language.keep({"eager": {"step_ms": 5.0}}, argparse.Namespace(**vars(args) | {"length": 32}))
    assert list(json.loads(file.read_text())["rows"]) == ["eager"]  # of another training


def test_a_page_is_made_of_what_is_kept(tmp_path):
    text = "a\n<!-- results: x -->\nold\n<!-- end of results -->\nb\n<!-- results: y -->\nstays\n<!-- end of results -->\n"
    tables = {"x": ("kept", lambda found: pages.table(found, ["what", "ms"], [("one", found["ms"])], "so"))}
    assert "Not measured yet." in pages.rebuilt(text, tmp_path, tables)
    (tmp_path / "kept-1x-gpu.json").write_text(json.dumps(
        {"machine": {"gpu": "A GPU"}, "versions": {"torch": "2.9"}, "date": "2026-01-02", "ms": "3.0"}))
    assert pages.rebuilt(text, tmp_path, tables) == text.replace(
        "old\n", "A GPU, torch 2.9, 2026-01-02: so.\n\n| what | ms |\n| --- | ---: |\n| one | 3.0 |\n")


def test_the_section_on_compilation_says_what_is_kept():
    text = compiling.PAGE.read_text()
    assert compiling.page(text, compiling.RESULTS) == text, "python -m dlojz.benchmarks.compiling --page"
    assert {part for _, part, _ in compiling.MARK.findall(text)} == compiling.PARTS.keys() == compiling.COLUMNS.keys()


def test_what_fails_or_comes_too_late_loses_nothing(tmp_path, capsys):
    part = compiling.Part("graphs", torch.device("cpu"), True, 60, tmp_path)
    part.row("eager", lambda: {"ms": 1.5})
    part.row("compiled", lambda: 1 / 0)
    part.end = 0
    part.row("late", lambda: {"ms": 1.0})
    found = json.loads(part.keep().read_text())
    assert [row["name"] for row in found["rows"]] == ["eager", "compiled"] and "no time left for late" in capsys.readouterr().err
    lines = compiling.table("graphs", found).splitlines()
    assert lines[-2:] == ["| eager | 1.500 |  |", "| compiled | ZeroDivisionError: division by zero |"]


def test_the_kernels_of_generated_code():
    codes = ["""
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
@triton.jit
def triton_poi_fused_add_0(in_ptr0):
    tl.store(in_ptr0)
''', device_str='cuda')
        extern_kernels.mm(a, b, out=c)
        triton_poi_fused_add_0.run(c, 4)
"""]
    assert compiling._kernels(codes) == ["mm", "triton_poi_fused_add_0"]
    assert compiling._source(codes) == "def triton_poi_fused_add_0(in_ptr0):\n    tl.store(in_ptr0)"


# --- day 3: optimizers ----------------------------------------------------------------------------------------------------


def test_the_page_of_day_3_says_what_is_kept():
    text = day3.PAGE.read_text()
    assert day3.page(text, day2.RESULTS) == text, "python -m dlojz.benchmarks.day3 --page"
    assert {suite for _, suite, _ in day2.MARK.findall(text)} >= set(day3.TABLES)


def test_a_loss_is_reached_by_its_mean_over_2048_images():
    assert updates.smoothed([4.0, 2.0, 0.0], 1024) == [4.0, 3.0, 1.0]
    assert updates.smoothed([4.0, 2.0], 4096) == [4.0, 2.0]
    assert day3.reached([4.0, 2.0, 0.0, 0.0], 1024) == {"1.5": 3, "1": 3, "0.5": 4}
    assert day3.reached([0.0, 9.0, 9.0], 1024) == {"1.5": None, "1": None, "0.5": None}, "one lucky batch is no mean"


def test_a_table_of_batches_by_hand():
    def run(batch, seed, steps, best=True, **more):
        return {"optimizer": "sgd", "batch": batch, "lr": 0.4, "rule": "search", "warmup": 10 * (batch > 512), "seed": seed,
                "steps": {"1.5": 1, "1": 2, "0.5": steps}, "ran": 99, "best": best, **more}

    rows = [run(512, 1, 80), run(512, 2, 95), run(512, 1, 70, best=False), run(2048, 1, None)]
    head, cells, said = day3.table_of_batches({"rows": rows})
    assert head == ["optimizer", "512 images", "2,048 images"] and "steps to a training loss of 0.5" in said
    assert cells[0] == ["sgd", "80 to 95 (lr 0.4)", "not in 99"] and cells[1] == ["adamw", "-", "-"]


@pytest.mark.long
def test_each_switch_is_measured_with_each_seed(monkeypatch):
    """And a resized image is one that the network sees: seconds are measured, not made."""
    seen, seeds = [], []
    monkeypatch.setattr(day3, "SEEDS", (1, 2))
    made = day3.Passes.__init__
    monkeypatch.setattr(day3.Passes, "__init__", lambda self, *args: (seen.append(args[-2:]), made(self, *args))[-1])
    rows = day3.switches(torch.device("cpu"), 16, 2, 1, 0.1, lambda rows: seeds.append(rows[-1]["seed"]))
    assert seeds == 4 * [1] + 4 * [2] and [row["way"] for row in rows] == 2 * list(day3.WAYS)
    assert sorted(set(seen)) == [(side, smoothing) for side in (16, 24, 32) for smoothing in (0.0, 0.1)]
    assert len({row["loss"] for row in rows}) == 8 and all(row["steps"] == 8 for row in rows)
    _, cells, said = day3.table_of_switches({"rows": [row | {"accuracy": 0.8 + row["seed"] / 100} for row in rows]})
    assert cells[0][:2] == ["neither", "81.00% to 82.00%"] and "1 epochs" not in said


def test_the_best_rate_is_marked_for_all_its_seeds():
    rows = [{"optimizer": "sgd", "batch": 512, "lr": lr, "warmup": 0, "seed": seed, "curve": []} for lr, seed in
            ((0.1, 1), (0.4, 1), (0.4, 2))]
    marked = day3.marked(rows, {("sgd", 512): rows[1]})
    assert [row["best"] for row in marked] == [False, True, True] and "curve" not in marked[0]


def test_more_measures_only_what_is_missing(tmp_path, monkeypatch):
    class Bench:
        until = math.inf

        def __init__(self, *_):
            pass

        def losses(self, name, batch, lr, warmup, seed, most):
            tried.append((name, batch, seed))
            return [0.4] * min(most, max(1, updates.MEAN_OVER // batch) + round(abs(math.log2(lr / 0.2))))  # 0.2 is the best

    monkeypatch.setattr(day3, "Bench", Bench)
    told = ["batches", "--device", "cpu", "--out", str(tmp_path), "--optimizers", "sgd", "--sizes", "128", "512"]
    tried = []
    assert day3.main(told) == 0 and {each[:2] for each in tried} == {("sgd", 128), ("sgd", 512)}
    before, tried = tried, []
    assert day3.main([*told, "32", "--more"]) == 0
    assert {each[1] for each in tried} == {32} and [each[2] for each in tried if each[2] > 1] == [2, 3]
    rows = json.loads(next(tmp_path.glob("batches-*")).read_text())["rows"]
    assert len(rows) == len(before) + len(tried) and {row["lr"] for row in rows if row["best"] and row["batch"] == 512} == {0.2}


# --- day 3: quantization --------------------------------------------------------------------------------------------------


def test_the_page_on_quantization_says_what_is_kept():
    text = quantizing.PAGE.read_text()
    assert quantizing.page(text, quantizing.RESULTS) == text, "python -m dlojz.benchmarks.quantizing --page"
    assert {f"quantize_{part}" for part in quantizing.PARTS} <= {suite for _, suite, _ in day2.MARK.findall(text)}


def test_quantizing_is_measured_with_small_sizes(tmp_path, capsys):
    assert quantizing.main(["int8", "fp8", "sparse", "--device", "cpu", "--tiny", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    found = {file.name.split("-")[0]: json.loads(file.read_text())["rows"] for file in tmp_path.glob("*.json")}
    assert set(found) == {"quantize_int8", "quantize_fp8", "quantize_sparse"}
    assert [row["way"] for row in found["quantize_int8"]] == ["bf16", "int8, dequantized", "int8, scale after the product"]
    assert found["quantize_sparse"][0]["zeros"] == 0.5
    with pytest.raises(SystemExit):
        quantizing.main(["int4"])
    assert "did you mean 'int8'?" in capsys.readouterr().err


# --- day 4: searching -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_search_is_measured_with_small_sizes(tmp_path, capsys):
    import torch

    pytest.importorskip("optuna")
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # several that wait for each other on a busy machine take ten times as long
    try:
        assert searching.main(["search", "confirm", "--device", "cpu", "--tiny", "--out", str(tmp_path)]) == 0
    finally:
        torch.set_num_threads(before)
    found = {file.name.split("-")[0]: json.loads(file.read_text())["rows"] for file in tmp_path.glob("*.json")}
    *trials, whole = found["hpo_search"]
    assert [row["number"] for row in trials] == list(range(8)) and whole["trials"] == 8 and whole["workers"] == 2
    assert whole["epochs"] == sum(len(row["errors"]) for row in trials) and whole["joules"] is None
    best = min(row["value"] for row in trials if row["state"] == "complete")
    assert found["hpo_confirm"][0]["searched"] == best and len(found["hpo_confirm"]) == 15
    capsys.readouterr()
    with pytest.raises(SystemExit):
        searching.main(["transfers"])
    assert "did you mean 'transfer'?" in capsys.readouterr().err


# --- day 3: hardware ------------------------------------------------------------------------------------------------------


def test_the_page_of_the_hardware_says_what_is_kept():
    text = hardware.PAGE.read_text()
    assert hardware.page(text, hardware.RESULTS) == text, "python -m dlojz.benchmarks.hardware --page"
    assert set(hardware.PARTS) <= {suite for _, suite, _ in day2.MARK.findall(text)}


def test_the_hardware_is_measured_with_small_sizes(tmp_path, capsys):
    assert hardware.main(["peaks", "stairs", "kernels", "attention", "--device", "cpu", "--tiny", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    found = {file.name.split("-")[0]: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}
    assert set(found) == {"peaks", "stairs", "kernels", "attention"}
    assert all(row["apart"] < 1e-4 for row in found["kernels"]["rows"] + found["attention"]["rows"])  # each way computes the same
    with pytest.raises(SystemExit):
        hardware.main(["peak"])
    assert "did you mean 'peaks'?" in capsys.readouterr().err


# --- day 4: ways of splitting ---------------------------------------------------------------------------------------------


def test_the_page_on_ways_of_splitting_says_what_is_kept():
    text = parallel.PAGE.read_text()
    assert parallel.page(text, day2.RESULTS) == text, "python -m dlojz.benchmarks.parallel --page"
    assert {parallel.PREFIX + part for part in parallel.PARTS} <= {suite for _, suite, _ in day2.MARK.findall(text)}


@pytest.mark.slow
def test_links_are_measured_and_what_fails_is_said(tmp_path, capsys):
    assert parallel.main(["links", "--device", "cpu", "--tiny", "--out", str(tmp_path)]) == 0
    found = json.loads(next(tmp_path.glob("parallel_links-2x-*.json")).read_text())
    assert [row["bytes"] for row in found["rows"]] == [256, 1024, 4096] and found["backend"] == "gloo"
    assert len(parallel.table(found).splitlines()) == 7
    assert parallel.main(["links", "--device", "cpu", "--tiny", "--limit", "0.2", "--out", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == "links: not done after 0.2 s\n" and not (tmp_path / "none").exists()
    with pytest.raises(SystemExit):
        parallel.main(["link"])
    assert "did you mean 'links'?" in capsys.readouterr().err


def test_the_bubble_of_torchs_own_order_and_of_the_kits():
    """Two devices, four microbatches: by formula 1/5, interleaved 1/9."""
    kit = parallel._kit()
    row = {"bubble": 0.3, "schedule": "1F1B", "chunks": 1, "microbatches": 4, "orders": None}
    assert parallel.simulated(row, 2)["simulated"] == pytest.approx(1 / 5)
    orders = [[list(action) for action in kit.interleaved(device, 2, 4)] for device in range(2)]  # as a record has them
    assert parallel.simulated(row | {"chunks": 2, "orders": orders}, 2)["simulated"] == pytest.approx(1 / 9)
    assert parallel.simulated({"way": "tensor"}, 2) == {}


def test_an_interrupt_keeps_what_was_measured(tmp_path, monkeypatch, capsys):
    def launched(script, words, *_):
        event = {"event": "row", "part": "links", "bytes": 256, "seconds": 1e-4}
        (paths.Path(words[-1]) / "record.jsonl").write_text(json.dumps(event) + "\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "launched", launched)
    assert parallel.main(["links", "tensor", "--device", "cpu", "--out", str(tmp_path)]) == 130
    [file] = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["rows"] == [{"bytes": 256, "seconds": 1e-4}]


def test_what_a_run_has_started_ends_with_it(tmp_path, monkeypatch):
    """Also where its processes have sessions of their own, as torchrun's do."""
    started = []

    def run(command, env, timeout, **_):
        waits = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(waits, env=env, start_new_session=True))
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(runs.subprocess, "run", run)
    with pytest.raises(subprocess.TimeoutExpired):
        runs.launched(tmp_path / "train.py", [], 2, 0.1)
    assert started[0].wait(60) == -signal.SIGKILL


# --- day 4: several GPUs --------------------------------------------------------------------------------------------------


def test_the_page_on_several_gpus_says_what_is_kept():
    text = parallel.PAGE.read_text()
    assert several.page(text, day2.RESULTS) == text, "python -m dlojz.benchmarks.several --page"
    assert {several.PREFIX + part for part in several.PARTS} <= {suite for _, suite, _ in day2.MARK.findall(text)}


def trained(switches, folder, processes, script, limit):
    """A run of 100 tokens/s per process, of which the second has 99; 3 billion parameters are too many for copies."""
    if "3b" in switches and "--shard" not in switches:
        return Record([{"event": "error", "kind": "out_of_memory", "message": "CUDA out of memory. Tried"}])
    steps = [{"event": "step", "step": number, "seconds": 1.0, "images": 100 * processes - (processes > 1), "loss": 4.0 / number
              + (1e-3 if "--resume" in switches and processes == 1 and number > 6 else 0.0)} for number in range(1, 13)]
    held = {f"bytes_{what}": 10**9 // (processes if "--shard" in switches else 1)
            for what in ("parameters", "gradients", "states")}
    return Record([{"event": "start", "parameters": 7, "resumed_at": 6}, *steps,
                   {"event": "checkpoint", "step": 6, "seconds": 0.5, "bytes": 10**9},
                   {"event": "validation", "step": 12, "loss": 2.0},
                   {"event": "end", "status": "completed", "memory_allocated": 5 * 10**9, **held}])


def test_rows_of_several_gpus(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "run", trained)
    assert several.main(["--device", "cpu", "--processes", "2", "--out", str(tmp_path)]) == 0
    found = {file.name.split("-")[0]: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}
    shown = {name: several.table(one).splitlines()[4:] for name, one in found.items()}
    assert shown["several_sizes"][-2] == "| 124m, 32, a copy each (DDP) | 199 | 1000.0 | - | 5.0 GB | 3.0 GB |"
    assert shown["several_sizes"][:2] == ["| 3b, 4, a copy each (DDP) | CUDA out of memory |  |  |  |  |",
                                           "| 3b, 4, parts (FSDP2) | 199 | 1000.0 | - | 5.0 GB | 1.5 GB |"]
    assert [row["name"] for row in found["several_hybrid"]["rows"]] == ["2 replicas of 1 part"]
    assert [line[:21] for line in shown["several_lm_scaling"]] == ["| as it is, 1 | 1.000", "| as it is, 2 | 0.995"]
    assert shown["several_resumed"] == ["| 2, 1 | 3e-03 | 0e+00 | 1.00 GB | 0.50 s |",
                                        "| 1, 2 | 0e+00 | 0e+00 | 1.00 GB | 0.50 s |"]
    assert "3b: CUDA out of memory" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        several.main(["size"])
    assert "did you mean 'sizes'?" in capsys.readouterr().err


def test_each_suite_names_its_trials():
    here = day2.Here("/data", workers=14, processes=4, cuda=True)
    for suite, (trials, _) in day2.SUITES.items():
        found = trials(here)
        assert len({trial.name for trial in found}) == len(found) >= 2, suite
    assert [trial.processes for trial in day2.scaling(here)] == [1, 2, 4]
    assert day2.loader(here)[-1].switches == ("--num-workers 14 --pin-memory --non-blocking --prefetch-factor 4 --drop-last "
                                              "--persistent-workers")


@pytest.mark.long
@pytest.mark.slow
def test_processes_are_measured(tmp_path, capsys):
    assert day2.main(["scaling", "--processes", "2", "--steps", "12", "--out", str(tmp_path), *SMALL]) == 0
    found = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert [r["processes"] for r in found["rows"]] == [1, 2] and all(r["images_per_second"] > 0 for r in found["rows"])


@pytest.mark.long
def test_a_rung_is_measured(capsys):
    assert ladder.main(["--rungs", "channels-last", "--steps", "12", *SMALL]) == 0
    said = capsys.readouterr().out
    assert "channels-last" in said and "resnet18, 32 px, 1 x 2, random" in said


def test_an_unknown_suite(capsys):
    with pytest.raises(SystemExit) as stop:
        day2.main(["speed"])
    assert stop.value.code == 2 and "there is no suite 'speed'" in capsys.readouterr().err


def test_a_ladder_that_is_refused_stops_at_once(capfd, tmp_path):
    assert ladder.main(["--data", str(tmp_path / "nothing"), "--steps", "5", *SMALL]) == 2
    said = capfd.readouterr()
    assert said.err.count("\n") == 1 and said.err.startswith("fp32: ") and "nothing" in said.err and "rung" not in said.out
    with pytest.raises(SystemExit):
        ladder.main(["--json", str(tmp_path / "no" / "x.json")])
    assert "there is no folder" in capfd.readouterr().err


def test_what_torchrun_adds_does_not_hide_the_reason(tmp_path):
    with pytest.raises(UsageError, match="no_such") as refused:
        runs.run(["--model", "no_such", "--test"], tmp_path / "run", gpus=2)
    assert "===" not in str(refused.value)


def test_a_run_takes_the_package_that_measures(tmp_path, monkeypatch):
    """From a checkout that is not installed, or beside another one that is."""
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    asked = {}

    def run(command, env, **_):
        asked.update(env)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(runs.subprocess, "run", run)
    runs.run([], tmp_path / "run")
    assert asked["PYTHONPATH"].split(os.pathsep) == [str(paths.PACKAGE.parent), "/somewhere/else"]


def test_a_page_needs_its_results(tmp_path, capsys):
    with pytest.raises(SystemExit):
        day2.main(["--page", "--out", str(tmp_path / "nothing")])
    assert "there is no such folder" in capsys.readouterr().err


def test_without_a_gpu_there_is_no_synchronised_batch_norm(capsys, tmp_path):
    assert day2.syncbn(day2.Here("random", 0, 2, cuda=False)) == []
