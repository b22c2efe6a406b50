"""The numbers in the figures of the notebooks, and what is counted of memory."""

import math
import re
import sys
from types import SimpleNamespace

import pytest
import torch

from dlojz.labs import device_runs, overview, verbs
from dlojz.labs.amp import figures as amp
from dlojz.labs.channels_last import figures as channels_last
from dlojz.labs.device_runs import sized
from dlojz.labs.gpu import figures as gpu
from dlojz.labs.probe import Limits, Probe, Session
from dlojz.system import hardware, paths, sites
from dlojz.system.errors import UsageError


def test_formats_are_those_of_torch():
    formats = {each.name: each for each in amp.known()}
    assert {name: each.bits for name, each in formats.items()} == {
        "fp32": 32, "tf32": 19, "bf16": 16, "fp16": 16, "fp8 e5m2": 8, "fp8 e4m3": 8}
    half, bf16 = formats["fp16"], formats["bf16"]
    assert (half.largest, half.smallest, half.epsilon) == (65504, 2**-24, 2**-10)
    assert bf16.smallest == 2**-133 and bf16.epsilon == 2**-7
    assert formats["fp8 e4m3"].largest == 448 and formats["fp8 e5m2"].largest == 57344
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        smallest = torch.tensor(formats[name].smallest, dtype=torch.float64)
        assert smallest.to(dtype) > 0 and (smallest / 2).to(dtype) == 0
    assert "2^-149" in repr(amp.formats())


def test_epsilons_in_the_figure_are_what_they_are_said_to_equal():
    said = re.findall(r"2\^-(\d+) = ([\d.e-]+)", amp.formats().page)
    assert ("3", "0.125") in said and len(said) == 6
    for bits, value in said:
        assert float(value) == pytest.approx(2.0 ** -int(bits), rel=0.005)


@pytest.mark.parametrize("card", gpu.CARDS, ids=lambda card: card.name)
def test_bars_of_memory_levels_are_as_long_as_the_memories_are_large(card):
    page = gpu.levels(card)._repr_html_()
    found = [float(right) - float(left) for left, right in
             re.findall(r'<path d="M ?([\d.]+)[^HZ]*H ?([\d.]+)[^Z]*Z" fill="#', page)]
    widths = dict(zip(("registers", "l1", "l2", "memory"), found))
    assert len(found) >= 4, page
    sizes = {"registers": card.sms * card.registers, "l1": card.sms * card.l1, "l2": card.l2 * 1024, "memory": card.memory * 1e6}
    for one in sizes:
        for other in sizes:
            assert (widths[one] > widths[other]) == (sizes[one] > sizes[other]), (one, other)
    assert "larger" not in page


def test_gradients_below_half_precision():
    found = amp.Magnitudes({-30: 1, -20: 2, -10: 1}, zeros=3, what="a model")
    assert found.total == 4 and found.below(-25) == 0.25 and found.below(-14) == 0.75
    view = amp.gradients(found)
    assert "25.0% are below 2^-25" in repr(view) and "0.0% become 0" in repr(view)
    measured = amp.magnitudes("resnet18", 32, 4)
    assert measured.total > 10_000 and max(measured.counts) < 5


def test_orders_and_strides():
    text = repr(channels_last.orders(2, 2))
    assert "R0 R1 R2 R3 G0" in text and "R0 G0 B0 R1" in text
    assert "strides (12, 4, 2, 1)" in text and "strides (12, 1, 6, 3)" in text


def test_operations_a_byte():
    assert [round(card.fp32 * 1000 / card.bandwidth) for card in gpu.CARDS] == [17, 10, 20, 14, 10]
    assert [card.fp32_cores / card.sms for card in gpu.CARDS] == [64, 64, 128, 128, 128]
    assert [card.tensor_cores / card.sms for card in gpu.CARDS] == [8, 4, 4, 4, 4]
    for card, clock in zip(gpu.CARDS, (1.53, 1.41, 1.98, 1.98, 1.98)):  # GHz: two operations a core and tick
        assert card.fp32 == pytest.approx(2 * card.fp32_cores * clock / 1000, rel=0.01)


def test_every_figure_is_text_and_a_page_that_takes_the_page_s_colours():
    views = [overview.workflow(), overview.ladder("amp"), gpu.cards(), gpu.levels(), gpu.threads(), gpu.memory(), amp.flow(),
             amp.saved("resnet18", 32, (2, 4)), channels_last.sums(), channels_last.widths((8, 9), pixels=4, batch=1, repeat=1)]
    for view in views:
        page = view._repr_html_()
        assert repr(view) and "<" not in repr(view)
        assert "<script" not in page and 'fill="black"' not in page and 'fill="#000' not in page and "http" not in page.replace(
            "http://www.w3.org/2000/svg", "")


def test_the_ladder_has_the_numbers_of_the_benchmarks():
    """The table of docs/benchmarks.md; its last row, CUDA graphs, is left out."""
    section = (paths.PACKAGE.parent / "docs/benchmarks.md").read_text().split("## One H100\n")[1].split("\n## ")[0]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ")][1:]
    table = [row for row in table if "---" not in row[1]][:-1]
    assert [row[1] for row in table] == [f"{speed:,}" for _, _, speed in overview.RUNGS]
    said = repr(overview.ladder("gpu"))
    assert all(f"{row[1]} images/s  {row[-1]}x" in said for row in table), "the last column: times the run with TF32"


@pytest.mark.parametrize("lab, rung", [("gpu", "as PyTorch comes"), ("amp", "bf16 autocast"),
                                       ("channels_last", "+ channels-last"), ("profiler", "+ channels-last")])
def test_the_ladder_says_where_one_is(lab, rung):
    view = overview.ladder(lab)
    (line,) = [line for line in str(view).split("\n") if "you are here" in line]
    assert rung in line and view.page.count("you are here</text>") == 1
    with pytest.raises(UsageError, match=r"no rung for 'dpd': .*Its labs are gpu, amp, channels_last, profiler"):
        overview.ladder("dpd")


@pytest.mark.parametrize("scale", ["ci", "laptop", "gpu", "cluster"])
def test_runs_of_each_scale(scale, here):
    verbs.solve("gpu", yes=True)
    runs = sized(scale)
    assert runs.scale == scale
    assert runs.run.startswith("train.py --test --data random") and list(runs.batches) == sorted(runs.batches)
    assert runs.too_large > 4 * runs.batches[-1] and runs.run in repr(runs)
    if scale in ("ci", "laptop"):  # in the smaller of the sizes: 32 or 128 pixels
        assert more_than_a_process_can_address(runs.too_large, 128 if scale == "laptop" else 32)


def more_than_a_process_can_address(images, side):
    return math.log2(images * 3 * side * side) > 47


@pytest.mark.parametrize("scale", ["gpu", "cluster"])
def test_runs_are_small_until_they_use_the_gpu(scale, here, monkeypatch):
    """The machine has a GPU, and the script does not use it yet: a GPU's batches would keep the CPU busy for many minutes."""
    monkeypatch.setattr(sites, "gpus", lambda: ["0"])
    monkeypatch.setenv("DLOJZ_SCALE", scale)
    runs = sized()
    for command in (runs.run, runs.short):
        assert "--model resnet18 --image-size 64 --batch-size 16" in command, "the defaults are a GPU's"
    assert max(runs.batches) <= 32 and more_than_a_process_can_address(runs.too_large, 64)
    assert "you have not written the lab gpu yet" in repr(runs)
    verbs.solve("gpu.device", yes=True)
    assert "resnet18" in runs.run, "model and images still stay on the CPU"
    verbs.solve("gpu", yes=True)
    assert "resnet18" not in runs.run and runs.batches[-1] == 1024 and "not written" not in repr(runs)
    verbs.reset("gpu.batch")
    assert "resnet18" in runs.run


@pytest.mark.skipif(sys.platform != "linux", reason="the probe's limits are those of Linux")
def test_such_a_run_trains_a_small_batch_on_the_cpu(here):
    with Session(Limits(seconds=100)) as session:
        switches = sized("gpu").short.removeprefix("train.py")
        run = Probe(session, here).run(switches, small=False, observe=["layers", "printing"], gpus=1)
        model = run.need("model", training=True)
        assert model.inputs[0]["shape"] == [16, 3, 64, 64] and list(model.devices) == ["cpu"] and run.completed
        assert run.first("print", text=lambda text: text.startswith("todo: gpu is not written yet"))


def test_outside_of_a_workspace_runs_have_the_size_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    assert sized("gpu").batches[-1] == 1024


@pytest.mark.parametrize("scale", ["ci", "laptop", "gpu", "cluster"])
def test_where_there_is_no_gpu_both_runs_have_the_same_batch(scale, here):
    """Else what they differ by is not noise."""
    verbs.solve("gpu", yes=True)
    runs = sized(scale)
    assert "--device cpu" in runs.on_cpu and runs.on_cpu.endswith("--test-steps 6")
    asked = re.findall(r"--batch-size \d+", runs.run)
    assert re.findall(r"--batch-size \d+", runs.on_cpu) == (asked or ["--batch-size 16"] * (scale in ("gpu", "cluster")))


@pytest.mark.parametrize("scale, tf32", [("ci", False), ("laptop", False), ("gpu", True), ("cluster", True)])
def test_the_baseline_on_a_gpu_computes_as_pytorch_comes(scale, tf32, here):
    """PyTorch lets convolutions round to TF32: a baseline without it would flatter mixed precision."""
    verbs.solve("gpu", yes=True)
    runs = sized(scale)
    assert ("--tf32" in runs.run) == ("--tf32" in runs.short) == tf32 and "--tf32" not in runs.on_cpu


def test_what_computes_in_bf16_is_small_where_the_cpu_emulates_it(here, monkeypatch):
    cpus = {True: "avx2 avx512f", False: "avx2 avx512f avx512_bf16"}
    for emulated, flags in cpus.items():
        text = f"model name : any\nflags : {flags}\n"
        assert hardware.bf16_is_emulated(SimpleNamespace(platform="linux", read=lambda name, text=text: text)) is emulated
        monkeypatch.setattr(hardware, "bf16_is_emulated", lambda emulated=emulated: emulated)
        runs = sized("laptop", in_bf16=True)
        assert ("resnet18" in runs.run) == ("resnet18" in runs.short) == ("no instructions for bfloat16" in repr(runs)) \
            == emulated
        assert "resnet50" in sized("laptop").run
        monkeypatch.undo()


@pytest.mark.parametrize("states, found", [
    ([], None), (["FAILED"], None), (["COMPLETED"], 0), (["COMPLETED", "FAILED"], 0),
    (["COMPLETED", "COMPLETED", "CANCELLED"], 1),
    (["FAILED", "PENDING"], 1), (["COMPLETED", "RUNNING"], 1)])
def test_a_run_that_failed_is_no_baseline(monkeypatch, states, found):
    def run(name, state="COMPLETED", *more, number=None):
        return SimpleNamespace(name=name, state=state, number=number, request=SimpleNamespace(command=("train.py", *more)))

    runs = [run("gpu", state, number=number) for number, state in enumerate(states)]
    monkeypatch.setattr(device_runs, "jobs", [*runs, run("amp"), run("gpu", "COMPLETED", "--batch-size", "4")])
    monkeypatch.setattr(device_runs, "submit", lambda command, name, again: (command, name, again))
    job = device_runs.earlier("gpu", "train.py")
    assert job == ("train.py", "gpu", True) if found is None else job.number == found
