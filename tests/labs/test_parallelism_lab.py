"""The lab parallelism: the kit's schedules are torch's, its figures say what runs have recorded, and every way of splitting
computes what one process computes."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.distributed import pipelining

from dlojz.jobs import runs
from dlojz.labs import workspace
from dlojz.labs.parallelism import figures
from dlojz.labs.parallelism.runs import rows
from dlojz.system import paths
from dlojz.system.errors import UsageError
from dlojz.training.distributed import Processes

SCRIPT = paths.PACKAGE / "reference" / "train_parallel.py"


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parallelism")
    workspace.create(folder, ["all"])
    return folder


@pytest.fixture
def kit(solved, monkeypatch):
    monkeypatch.chdir(solved)
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    return figures.yours()


# ------------------------------------------------------------------------------------------------------------- schedules
@pytest.fixture
def pretended() -> Iterator:
    """Makes a schedule of torch's for device 0 of several, without the others."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def made(name, devices, microbatches, chunks):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=devices)
        stages = [pipelining.PipelineStage(torch.nn.Identity(), chunk * devices, devices * chunks, torch.device("cpu"))
                  for chunk in range(chunks)]
        return getattr(pipelining, name)(stages, microbatches, loss_fn=torch.nn.functional.mse_loss)

    yield made
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("devices, microbatches", [(2, 4), (4, 8), (4, 4)])
@pytest.mark.parametrize("ours, torchs, chunks", [("interleaved", "ScheduleInterleaved1F1B", 2),
                                                  ("zero_bubble", "ScheduleInterleavedZeroBubble", 1)])
def test_the_order_of_a_schedule_is_torchs(kit, pretended, ours, torchs, chunks, devices, microbatches):
    order = pretended(torchs, devices, microbatches, chunks).pipeline_order
    for device in range(devices):
        right = [(each.computation_type.value, each.stage_index, each.microbatch_index) for each in filter(None, order[device])]
        assert getattr(kit, ours)(device, devices, microbatches) == right


@pytest.mark.parametrize("devices, microbatches", [(1, 3), (2, 2), (4, 8), (8, 16)])
@pytest.mark.parametrize("name, make, chunks", [
    ("gpipe", "gpipe", 1), ("1f1b", "one_f_one_b", 1), ("interleaved", "interleaved", 2), ("zero_bubble", "zero_bubble", 1)])
def test_a_simulation_has_the_bubble_of_the_formula(kit, name, make, chunks, devices, microbatches):
    orders = [getattr(kit, make)(device, devices, microbatches) for device in range(devices)]
    times = kit.simulate(orders, {kind: (2.0 if kind == "B" else 1.0) / chunks for kind in "FBIW"})
    bubble = 1 - 3 * microbatches / max(end for _, end in times.values())
    assert bubble == pytest.approx(kit.bubble(name, devices, microbatches, chunks), abs=1e-9)


def test_1f1b_holds_few_microbatches(kit):
    for make, most in ((kit.gpipe, 8), (kit.one_f_one_b, 4)):
        held = [sum({"F": 1, "B": -1}[kind] for kind, *_ in make(0, 4, 8)[:at]) for at in range(17)]
        assert max(held) == most


# --------------------------------------------------------------------------------------------------------------- figures
def a_run(folder, part, *found):
    folder = folder / "run-001"
    folder.mkdir()
    rows = ({"event": "row", "part": part, **row} for row in found)
    events = [{"event": "start"}, *rows, {"event": "end", "status": "completed"}]
    (folder / "record.jsonl").write_text("".join(json.dumps({"time": 1.0} | event) + "\n" for event in events))
    return runs.of_folder(folder)


def test_a_link_is_drawn_with_its_knee(kit, tmp_path):
    sizes = [2**power for power in range(8, 26, 2)]
    view = figures.link(a_run(tmp_path, "links", *({"bytes": size, "seconds": 1e-3 + size / 1e9} for size in sizes)))
    assert "Latency 1.00 ms, bandwidth 1 GB/s. Below 1 MB (the knee" in repr(view) and "knee 1 MB" in view._repr_html_()


def test_what_is_quoted_of_the_recorded_links(kit):
    """NVLink beside gloo, in the notebook and on the page."""
    said = repr(figures.recorded_links())
    assert "NVLink, nccl, NVIDIA H200              59.6 µs               313 GB/s  18.7 MB         324 GB/s" in said, said
    assert "gloo, 6 cores                          0.18 ms              2.61 GB/s   463 kB        2.48 GB/s" in said, said
    for page in ("notebooks/day4_3_parallelism.ipynb", "docs/day4.md"):
        text = " ".join((paths.PACKAGE.parent / page).read_text().split())
        assert "324 GB/s with the largest message" in text and "131 times gloo's" in text and "a third of gloo's" in text
    assert round(324.3 / 2.478) == 131


def test_a_layer_inside_a_node_and_between_nodes():
    text = repr(figures.inside(width=8192, tokens=8192, gpus=8))
    assert "NVLink in a node           computing 2.10 ms, sending 1.04 ms" in text  # 24 * 8192**3 / 8 / 784e12; 4 * 7/8 * 134 MB
    assert "400 Gbit/s between nodes   computing 2.10 ms, sending 9.40 ms" in text  # as the quiz has it


def pipeline(schedule, chunks, orders=None, **more):
    return {"schedule": schedule, "chunks": chunks, "stages": 2 * chunks, "microbatches": 4, "seconds": 0.5, "bubble": 0.31,
            "loss": 1e-8, "gradient": 1e-7, "spans": [[["F", 0.0, 0.1]], [["F", 0.1, 0.2]]], "orders": orders, **more}


def test_schedules_as_they_ran_beside_simulation_and_formula(kit, tmp_path):
    orders = [kit.interleaved(device, 2, 4) for device in range(2)]
    run = a_run(tmp_path, "pipeline", pipeline("1F1B", 1), pipeline("Interleaved1F1B", 2, orders),
                {"schedule": "DualPipeV", "error": "torch 2.6 does not have it"})
    lines = [line.split() for line in repr(figures.pipelines(run)).splitlines()]
    assert ["1F1B", "2", "2", "20%", "20%", "31%", "500", "ms", "1.0e-08", "1.0e-07"] in lines
    assert ["Interleaved1F1B", "2", "4", "11%", "11%", "31%", "500", "ms", "1.0e-08", "1.0e-07"] in lines
    assert "torch 2.6 does not have it" in repr(figures.pipelines(run))
    assert "device 1: at work 20% of the step" in repr(figures.step(run, "1F1B"))
    with pytest.raises(UsageError, match=r"schedule='GPipe' was not run: choose one of 1F1B, Interleaved1F1B"):
        figures.step(run, "GPipe")


def test_what_a_way_sends_has_a_row_for_each_direction(tmp_path):
    one = {"count": 4, "bytes": 200, "largest": 50, "dtype": "float32"}
    run = a_run(tmp_path, "tensor", {"way": "by hand", "loss": 1e-7, "gradient": 2e-7, "held": 1, "parameters": 2,
                                     "sent_forward": {"all_reduce": one, "recv": one}, "sent_backward": {}})
    lines = [line.split() for line in repr(figures.ways(run, "tensor")).splitlines()]
    assert ["by", "hand", "1.0e-07", "2.0e-07", "50%", "forward", "4", "all-reduce:", "200", "B"] in lines
    assert ["backward", "nothing"] in lines


def test_a_run_without_such_rows_is_refused(tmp_path):
    with pytest.raises(UsageError, match="run-001 has recorded nothing of the part links"):
        rows(a_run(tmp_path, "tensor"), "links")


def test_before_anything_is_written(tmp_path, monkeypatch):
    workspace.create(tmp_path / "fresh")
    monkeypatch.chdir(tmp_path / "fresh")
    assert "gpipe: your `simulate` returns nothing yet" in repr(figures.schedules())
    assert "Your `fit` finds nothing yet" in repr(figures.link(a_run(tmp_path, "links", {"bytes": 256, "seconds": 1e-3})))
    row = repr(figures.pipelines(a_run(tmp_path / "fresh", "pipeline", pipeline("1F1B", 1)))).splitlines()[2].split()
    assert row[:6] == ["1F1B", "2", "2", "-", "-", "31%"]
    assert "NVLink, nccl, NVIDIA H200                    -                      -     -         324 GB/s" in repr(
        figures.recorded_links())


def test_what_is_chosen_for_four_models(kit):
    lines = {line.split(",")[0]: line for line in repr(figures.decisions(rows=16)).splitlines()}
    assert lines["1 billion"].split()[-9:].count("replicate") >= 2 and "shard x tensor" in lines["70 billion"]
    assert all(gpus % node == 0 for _, gpus, node, _ in figures.MACHINES)  # as `choose` is told: node GPUs in each node
    asked = re.search(r"(\d+) billion .*?(\d+) H200s in (\d+) nodes .*?(\d+) rows",
                      (paths.PACKAGE / "labs/parallelism/quiz.toml").read_text())
    billions, gpus, nodes, rows = map(int, asked.groups())  # the quiz, whose answer is FSDP, and not DDP
    for row in (0, 20e9):
        assert kit.choose(billions * 1e9, row, rows, gpus, gpus // nodes, 141e9, True) == "shard"


# ---------------------------------------------------------------------------------------------------- beside one process
@pytest.mark.long
def test_every_way_computes_what_one_process_computes(tmp_path):
    """Losses to 1e-6, gradients to 1e-5 of the largest number, on four processes."""
    sizes = ["--wait", "1", "--seconds", "0.02", "--largest", "4096", "--rows", "4", "--length", "16"]
    said = run_ranks([str(SCRIPT), "links", "tensor", "pipeline", "context", "two", *sizes, "--device", "cpu", "--run-dir",
                      str(tmp_path)], 4, 400, env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": "4"})
    events = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    found = {part: [event for event in events if event.get("part") == part] for part in
             ("links", "tensor", "pipeline", "context", "two")}
    assert [row["bytes"] for row in found["links"]] == [256, 1024, 4096] and "way tensor" in said[0][0]
    compared = [row for part in ("tensor", "pipeline", "two") for row in found[part] if "error" not in row]
    for row in compared:
        assert row["loss"] < 1e-6 and row["gradient"] < 1e-5, row
    for row in found["context"]:
        assert row["result"] < 1e-5 and row["gradient"] < 1e-5, row
    assert len(found["pipeline"]) == 7 and len(found["tensor"]) == 4 and len(found["context"]) == 2 and len(found["two"]) == 1
    by_hand, plain, sequence, loss = found["tensor"]
    assert by_hand["sent_forward"]["all_reduce"]["count"] == by_hand["sent_backward"]["all_reduce"]["count"] == 4  # one per block
    assert plain["sent_forward"]["all_reduce"]["count"] == 9  # attention and MLP of four blocks, and the embedding
    assert sequence["sent_forward"]["reduce_scatter"]["count"] == 9 and "all_reduce" not in sequence["sent_forward"]
    assert loss["sent_forward"]["all_gather"]["count"] == 9  # no logits
    assert found["two"][0]["held"] < 0.3 * found["two"][0]["parameters"]


def test_one_process_is_told_to_start_two(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = importlib.import_module("train_parallel")
    with pytest.raises(UsageError, match=r"torchrun --nproc-per-node 2 train_parallel\.py links two"):
        script.main(SimpleNamespace(parts=["links", "two"]), Processes(), None)
    sizes = SimpleNamespace(parts=["tensor"], width=64, heads=4, length=32, rows=8)
    with pytest.raises(UsageError, match=r"--heads 4 cannot be split: .* a multiple of 3"):
        script.main(sizes, Processes(world_size=3), None)
    sizes = SimpleNamespace(parts=["links"], width=64, heads=4, length=32, rows=8, largest=100)
    with pytest.raises(UsageError, match="the smallest message of links has 256 bytes"):
        script.main(sizes, Processes(world_size=2), None)
