"""The lab quantize: its figures, whose recorded numbers are those of docs/results, a folded network, and the int8 kernel."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import torch

from dlojz.labs.quantize import figures
from dlojz.system import paths

ONE = 'docs/results/quantize_{}-1x-nvidia-h200.json'
KERNEL = """
import sys, torch
from quantize import absmax, int8_linear
from quantize_kernel import int8_product
torch.manual_seed(0)
for rows, outputs, inputs in ((1, 4, 2048), (1, 5, 100), (2, 3, 2100)):
    q, scale = absmax(torch.randn(outputs, inputs), "channel")
    x = torch.randn(rows, inputs)
    assert torch.allclose(int8_product(x, q, scale), int8_linear(x, q, scale), rtol=1e-4, atol=1e-3), (rows, outputs, inputs)
"""


@pytest.fixture(scope="module")
def kit():
    return figures.finished()


def rows(part):
    return json.loads((paths.PACKAGE.parent / ONE.format(part)).read_text())["rows"]


def test_int8_as_recorded():
    took = {}
    for row in rows("int8"):
        if row["batch"] == 1:
            took[row["way"]] = min(took.get(row["way"], float("inf")), row["graph"] * 1e6)
    shown = dict(figures.ONE_ROW)
    assert shown.pop("bandwidth limit of int8") == pytest.approx(8192**2 / 4.2e12 * 1e6, rel=0.01)
    shown["int8, kernel"] = shown.pop("int8, a kernel that reads int8")
    for way, microseconds in shown.items():
        assert microseconds == pytest.approx(took[way], rel=0.01), way
    assert took["int8, kernel"] < 24


def test_fp8_as_recorded():
    took = {(row["side"], row["way"]): row["seconds"] * 1e6 for row in rows("fp8")}
    for side, shown in figures.FP8.items():
        assert shown == pytest.approx([took[side, way] for way in ("bf16", "E4M3", "E4M3, x scaled each time")], rel=0.01)


def test_2_4_as_recorded():
    found = [row for row in rows("sparse") if row.get("format") == "bfloat16"]
    for side, shown in figures.SPARSE.items():
        dense, called = (next(row for row in found if row["way"] == way and row["side"] == side)
                         for way in ("dense", "cusparselt"))
        assert shown == pytest.approx([1e6 * number for number in (
            dense["seconds"], called["kernels"][0][1], called["seconds"], called["host"])], rel=0.01)


def test_folding_as_recorded():
    took = {(row["batch"], row["way"]): row for row in rows("folding") if row["what"] == "resnet50"}
    for batch, shown in figures.FOLDED.items():
        found = [1e3 * took[batch, way][what] for what in ("seconds", "graph") for way in ("as trained", "folded")]
        assert shown == pytest.approx(found, rel=0.01)


def test_your_own_file_is_shown(tmp_path, monkeypatch):
    reference = (paths.PACKAGE / "reference" / "quantize.py").read_text()
    tmp_path.joinpath("quantize.py").write_text(reference)
    monkeypatch.setattr(figures.workspace, "find", lambda: tmp_path)
    lost = [float(line.split()[-1].rstrip("%")) for line in str(figures.yours()).splitlines()[2:-1]]
    assert lost[0] > 10 > 1 > lost[1] > lost[2] and lost[3] > 99
    stub = reference.replace("rows, columns = weight.shape", "return weight.char() * 0, weight[:1, :1]")
    tmp_path.joinpath("quantize.py").write_text(stub)
    assert str(figures.yours()).count("100.0%") == 6


def test_fewer_bits_lose_more_and_training_brings_2_4_back():
    loss = {line[:40].strip(): float(line.split()[-2]) for line in str(figures.network()).splitlines()[2:-1]}
    exact = loss["float32, as trained"]
    assert abs(loss["8 bits, a scale per channel"] - exact) < 0.01
    assert loss["3 bits, a scale per tensor"] > loss["3 bits, a scale per 32 numbers"] > exact
    assert loss["2:4"] > loss["2:4, trained on with the same zeros"]


@pytest.mark.parametrize("figure", ["one_row_recorded", "fp8", "fp8_recorded", "sparse_recorded"])
def test_each_is_text_and_a_page_that_needs_nothing_from_elsewhere(figure):
    view = getattr(figures, figure)()
    assert len(str(view).splitlines()) > 2 and "<table" in view._repr_html_() and "<script" not in view._repr_html_()


def test_a_folded_network_computes_the_same(kit):
    torch.manual_seed(0)
    norm, bare, shared = torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4, affine=False), torch.nn.BatchNorm2d(4)
    for one in (norm, bare, shared):
        one.running_mean.normal_()
        one.running_var.uniform_(0.5, 2)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            grouped = torch.nn.Conv2d(4, 4, 1, groups=2)
            self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), norm, torch.nn.ReLU(), grouped, bare)
            self.twice, self.shared = torch.nn.Conv2d(4, 4, 1), shared

        def forward(self, x):
            y = self.twice(self.body(x))
            return y + self.shared(y)  # the convolution's own output is needed, too: this one stays

    net, x = Net().eval(), torch.randn(2, 3, 8, 8)
    folded = kit.folded(net)
    assert sum(isinstance(module, torch.nn.BatchNorm2d) for module in folded.modules()) == 1
    assert torch.allclose(folded(x), net(x), atol=1e-5)
    assert len([module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]) == 3


def test_dequantize_is_the_other_way(kit):
    weight = torch.randint(-7, 8, (4, 64), generator=torch.Generator().manual_seed(0)).float()
    weight[:, ::32] = 7
    for group in ("tensor", "channel", 32):
        assert torch.allclose(kit.dequantize(*kit.absmax(weight, group, 4)), weight)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is for Linux only")
def test_the_int8_kernel_computes_the_product():
    """Without a GPU, by Triton's interpreter: it is chosen when Triton is imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", KERNEL], cwd=paths.PACKAGE / "reference", env=environment, capture_output=True,
                         text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
