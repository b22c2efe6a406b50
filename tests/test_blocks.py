"""The stand-in for Triton: kernels run as Triton runs them, and what a GPU would do silently is an error."""

import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from dlojz.system import paths
from dlojz.training import blocks
from dlojz.training.blocks import Kernel

tl = blocks._language


def launch(body, *args, grid=(1,), **sizes):
    Kernel(body)[grid](*args, **sizes)


def copied(x, out, size, BLOCK):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < size) * 2, mask=at < size)


def test_programs_share_a_tensor():
    x = torch.arange(10.0)
    out = torch.full((12,), -1.0)
    launch(copied, x, out[:10], 10, grid=(3,), BLOCK=4)
    assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, -1, -1]
    assert Kernel(copied)[lambda given: (blocks.cdiv(given["size"], given["BLOCK"]),)](x, out, 10, BLOCK=16) is None


def test_a_view_is_the_memory_that_it_covers():
    x = torch.arange(12.0).reshape(3, 4)[:, 1:3]
    out = torch.empty(2)
    launch(lambda x, out: tl.store(out + tl.arange(0, 2), tl.load(x + 4 + tl.arange(0, 2))), x, out)
    assert out.tolist() == [5, 6]


def past(x, BLOCK):
    tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))


def before(x):
    tl.store(x - 1 + tl.arange(0, 2), tl.zeros((2,), tl.float32))


def odd(x):
    tl.arange(0, 12)


def computed(x):
    tl.zeros((tl.program_id(0) + 2,), tl.float32)


def half(x):
    tl.exp(tl.load(x + tl.arange(0, 2)).to(tl.float16))


def mixed(x):
    tl.dot(tl.zeros((16, 16), tl.float16), tl.zeros((16, 16), tl.float32))


def thin(x):
    tl.dot(tl.zeros((16, 8), tl.float32), tl.zeros((8, 16), tl.float32))


def unknown(x):
    tl.associative_scan(x)


@pytest.mark.parametrize(("body", "sizes", "error", "words"), [
    (past, {"BLOCK": 8}, IndexError, r"tl\.load: program \(1,\) goes past the end of `x`: its memory has 10 numbers.*number 10"),
    (before, {}, IndexError, r"tl\.store.*number -1"),
    (odd, {}, ValueError, "not 12: take the next power of 2"),
    (computed, {}, ValueError, "known when the kernel is compiled"),
    (half, {}, TypeError, r"tl\.exp computes in float32"),
    (mixed, {}, TypeError, "not float16 and float32"),
    (thin, {}, ValueError, "16 numbers or more, not 8"),
    (unknown, {}, AttributeError, r"`tl\.associative_scan` is not in the stand-in"),
])
def test_what_is_wrong_is_said(body, sizes, error, words):
    with pytest.raises(error, match=words):
        launch(body, torch.zeros(10), grid=(2,), **sizes)


def test_a_kernel_is_launched_with_a_grid():
    with pytest.raises(RuntimeError, match=r"copied\[grid\]"):
        Kernel(copied)(1, 2, 3, 4)


def test_what_is_masked_is_anything():
    out = torch.empty(4)
    at = tl.arange(0, 4)
    launch(lambda x, out: tl.store(out + at, tl.load(x + at, mask=at < 2)), torch.ones(2), out)
    assert out.isnan().tolist() == [False, False, True, True]


class Described:
    """A tensor of two dimensions as Triton's descriptors know it: blocks of one size, by where they begin."""

    def __init__(self, tensor, block):
        self.tensor, self.block, self.dtype = tensor, block, tensor.dtype

    def _of(self, begin):
        at = tuple(slice(int(first), int(first) + size) for first, size in zip(begin, self.block))
        assert self.tensor[at].shape == tuple(self.block), "past the end"
        return self.tensor[at]

    def load(self, begin):
        return self._of(begin).clone()

    def store(self, begin, values):
        assert values.dtype == self.dtype
        self._of(begin).copy_(values)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_descriptors_is_attention(monkeypatch, causal):
    from dlojz.reference import kernels

    made = []
    monkeypatch.setattr(kernels, "WORTH", 0)
    monkeypatch.setattr(kernels, "described", lambda x, block: made.append(block) or Described(x, block))
    q, k, v = torch.randn(3, 2, 2, 256, 16, generator=torch.Generator().manual_seed(1)).half()
    found = kernels.attention(q, k, v, causal)
    assert made == [[64, 16], [128, 16], [128, 16], [64, 16]]
    wanted = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    assert (found.double() - wanted).abs().max() < 2e-3  # half a unit of float16 below 4


@pytest.mark.parametrize(("capability", "hip", "skip", "has"), [
    ((9, 0), None, 0, True), ((12, 0), None, 0, True), ((8, 0), None, 0, False), ((9, 4), "6.4", 0, False),
    ((9, 0), None, 1, False)])
def test_a_descriptor_wants_a_gpu_that_has_them_and_memory_at_16_bytes(monkeypatch, capability, hip, skip, has):
    tensor = torch.zeros(64 * 16 + 1)[skip:][:64 * 16].view(64, 16)
    tool = types.SimpleNamespace(TensorDescriptor=types.SimpleNamespace(from_tensor=Described))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setitem(sys.modules, "triton.tools.tensor_descriptor", tool)
    for name in ("triton", "triton.tools"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert blocks.described(tensor, [16, 16]) is None  # no GPU
    monkeypatch.setattr(blocks, "compiles", lambda: True)
    assert (blocks.described(tensor, [16, 16]) is not None) == has
    monkeypatch.setitem(sys.modules, "triton.tools.tensor_descriptor", None)  # Triton before 3.4
    assert blocks.described(tensor, [16, 16]) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("length", "size"), [(1, 64), (257, 128), (512, 64), (640, 32)])
def test_attention_compiled_for_a_gpu_is_attention(dtype, length, size, monkeypatch):
    from dlojz.reference import kernels

    monkeypatch.setattr(kernels, "WORTH", 0)
    make = torch.Generator("cuda").manual_seed(1)
    wide = torch.randn(3, 2, length, 3, size + 8, device="cuda", dtype=torch.float32, generator=make).to(dtype)
    q, k, v = wide[..., :size].transpose(2, 3)  # (2, 3, length, size), not contiguous
    moved = [torch.empty(x.numel() + 1, device="cuda", dtype=dtype)[1:].view(x.shape).copy_(x) for x in (q, k, v)]
    for given, most in (((q, k, v), 16), (moved, 16), ((q * 30, k * 30, v * 30), max(16, 1e-3 / torch.finfo(dtype).eps))):
        for causal in (False, True):
            found = kernels.attention(*given, causal)
            wanted = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in given), is_causal=causal)
            assert (found - wanted).abs().max() <= most * torch.finfo(dtype).eps * wanted.abs().max()


BOTH = """
import sys, torch
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "triton":
    import triton, triton.language
    from dlojz.training import blocks
    blocks.triton, blocks.tl = triton, triton.language
import kernels
torch.manual_seed(0)
x, bias = torch.randn(3, 37), torch.randn(37)
q, k, v = (torch.randn(1, 2, 37, 16) for _ in range(3))
found = [kernels.bias_gelu(x, bias, 32), kernels.softmax(x, 16), kernels.softmax(x.half()[::2], 64),
         kernels.attention(q, k, v), kernels.attention(q, k, v, True, 16, 32),
         kernels.attention(*(one[:, :, :32] for one in (q, k, v)))]
torch.save(found, sys.argv[3])
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kits_kernels_are_the_same_in_tritons_interpreter(tmp_path):
    made = []
    for which in ("stand-in", "triton"):
        file = tmp_path / which
        environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": paths.python_path()}
        subprocess.run([sys.executable, "-c", BOTH, str(paths.PACKAGE / "reference"), which, str(file)], check=True, timeout=300,
                       env=environment, cwd=tmp_path)
        made.append(torch.load(Path(file)))
    for one, other in zip(*made, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
