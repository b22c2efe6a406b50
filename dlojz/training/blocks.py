"""Triton where a GPU is; elsewhere a stand-in that runs the same kernels block by block on the CPU, to learn and to check.

    from dlojz.training.blocks import tl, triton

    @triton.jit
    def double(x, out, size, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, 2 * tl.load(x + at, mask=at < size), mask=at < size)

    double[triton.cdiv(1000, 256),](x, out, 1000, BLOCK=256)

The stand-in needs neither Triton (which is for Linux only) nor a compiler. It refuses what Triton refuses (a block whose size is
no power of 2, the exponential of a float16), and names what a GPU would do silently: reading or writing past the end of a tensor.
It is used without a GPU and with TRITON_INTERPRET=1. It has what is needed for elementwise work, reductions over a block and
products of blocks; a name that it does not have is an AttributeError that says so.
"""

from __future__ import annotations

import itertools
import math
import os
import types

import torch

HALF = (torch.float16, torch.bfloat16)
WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
_program: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of the block that runs: its place in the grid, and the grid


class Pointer:
    """Addresses of numbers of one tensor, as a kernel computes with them: ``x + offsets``."""

    def __init__(self, name: str, tensor: torch.Tensor, at=0):
        self.name, self.tensor, self.at = name, tensor, at
        self.dtype = types.SimpleNamespace(element_ty=tensor.dtype)

    def __add__(self, offset) -> Pointer:
        if isinstance(offset, torch.Tensor) and offset.dtype not in WHOLE:
            raise TypeError(f"{self.name} + {offset.dtype}: an offset is a whole number".replace("torch.", ""))
        return Pointer(self.name, self.tensor, self.at + offset)

    __radd__ = __add__

    def __sub__(self, offset) -> Pointer:
        return self + -offset

    def numbers(self, mask, what: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The tensor's memory as a line, places in it, and which of them count. Raises IndexError past its ends."""
        span = 1 + sum((size - 1) * stride for size, stride in zip(self.tensor.shape, self.tensor.stride()))
        span = span if self.tensor.numel() else 0
        at = torch.as_tensor(self.at, dtype=torch.int64)
        counts = torch.as_tensor(True if mask is None else mask, dtype=torch.bool)
        if counts.dim() > at.dim():
            raise ValueError(f"tl.{what}: the mask has the shape {list(counts.shape)}, the addresses have {list(at.shape)}")
        counts = counts.expand_as(at)
        outside = counts & ((at < 0) | (at >= span))
        if outside.any():
            first = at[outside].flatten()[0].item()
            raise IndexError(f"tl.{what}: program {_program[0]} goes past the end of `{self.name}`: its memory has "
                             f"{span} numbers, and this asks for number {first}. On a GPU that is another tensor's memory")
        return self.tensor.as_strided((span,), (1,)), at, counts


class Kernel:
    """A function that each program of a grid calls."""

    def __init__(self, function):
        self.function = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *args, **keywords):
        if not _program[1]:
            raise RuntimeError(f"{self.__name__} is a kernel: launch it with a grid, {self.__name__}[grid](…)")
        return self.function(*args, **keywords)

    def __getitem__(self, grid):
        def launch(*args, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, **keywords):
            global _program
            names = self.function.__code__.co_varnames
            given = dict(zip(names, args)) | keywords
            sizes = tuple(grid(given) if callable(grid) else grid if isinstance(grid, tuple) else (grid,))
            given = {name: Pointer(name, value) if isinstance(value, torch.Tensor) else value for name, value in given.items()}
            try:
                with torch.no_grad():
                    for place in itertools.product(*map(range, map(int, sizes))):
                        _program = (place, sizes)
                        self.function(**given)
            finally:
                _program = ((), ())

        return launch


def cdiv(x, y):
    """How many blocks of ``y`` cover ``x``."""
    return (x + y - 1) // y


def next_power_of_2(n: int) -> int:
    return 1 << (max(int(n), 1) - 1).bit_length()


# --- the language --------------------------------------------------------------------------------------------------------


def program_id(axis: int = 0) -> torch.Tensor:
    place = _program[0]
    return torch.tensor(place[axis] if axis < len(place) else 0, dtype=torch.int32)


def num_programs(axis: int = 0) -> torch.Tensor:
    grid = _program[1]
    return torch.tensor(grid[axis] if axis < len(grid) else 1, dtype=torch.int32)


def _side(size) -> int:
    if isinstance(size, torch.Tensor):
        raise ValueError("the size of a block is known when the kernel is compiled: a `tl.constexpr`, no number that is computed")
    if size < 1 or size & (size - 1):
        raise ValueError(f"a block has 2, 4, 8, … numbers in each direction, not {size}: take the next power of 2, and a mask")
    return size


def arange(start: int, end: int) -> torch.Tensor:
    _side(end - start)
    return torch.arange(start, end, dtype=torch.int32)


def full(shape, value, dtype) -> torch.Tensor:
    return torch.full([_side(size) for size in shape], value, dtype=dtype)


def zeros(shape, dtype) -> torch.Tensor:
    return full(shape, 0, dtype)


def zeros_like(block) -> torch.Tensor:
    return torch.zeros_like(block)


def load(pointer: Pointer, mask=None, other=None, **how) -> torch.Tensor:
    """What is not in the mask is ``other``; without one it is anything, here NaN."""
    if not isinstance(pointer, Pointer):
        raise TypeError("tl.load wants addresses, such as `x + offsets`")
    memory, at, counts = pointer.numbers(mask, "load")
    found = memory[at.where(counts, 0)] if len(memory) else torch.zeros(at.shape, dtype=memory.dtype)
    if other is None:
        other = math.nan if memory.is_floating_point() else torch.iinfo(memory.dtype).max if memory.dtype != torch.bool else True
    return torch.where(counts, found, torch.as_tensor(other, dtype=memory.dtype))


def store(pointer: Pointer, value, mask=None, **how) -> None:
    memory, at, counts = pointer.numbers(mask, "store")
    value = torch.as_tensor(value).to(memory.dtype).expand_as(at)
    memory[at[counts]] = value[counts]


def atomic_add(pointer: Pointer, value, mask=None, **how) -> None:
    memory, at, counts = pointer.numbers(mask, "atomic_add")
    value = torch.as_tensor(value).to(memory.dtype).expand_as(at)
    memory.index_add_(0, at[counts], value[counts])


def dot(a, b, acc=None, input_precision=None, **how) -> torch.Tensor:
    """The product of two blocks, summed in float32."""
    if a.dtype != b.dtype:
        raise TypeError(f"tl.dot: both blocks have the same type, not {a.dtype} and {b.dtype}".replace("torch.", ""))
    if a.shape[-1] < 16:
        raise ValueError(f"tl.dot sums over 16 numbers or more, not {a.shape[-1]}: tensor cores work on such blocks")
    product = a.float() @ b.float()
    return product if acc is None else acc + product


def where(condition, x, y) -> torch.Tensor:
    return torch.where(*map(torch.as_tensor, (condition, x, y)))


def maximum(x, y) -> torch.Tensor:
    return torch.maximum(*_alike(x, y))


def minimum(x, y) -> torch.Tensor:
    return torch.minimum(*_alike(x, y))


def _alike(x, y):
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    kind = torch.result_type(x, y)
    return x.to(kind), y.to(kind)


def _float(name: str):
    function = getattr(torch, name)

    def call(x):
        if not isinstance(x, torch.Tensor):
            x = torch.tensor(float(x))
        if x.dtype in HALF:
            raise TypeError(f"tl.{name} computes in float32: convert the block first, with `.to(tl.float32)`")
        return function(x)

    return call


def _over(name: str):
    def call(x, axis=None, keep_dims=False, **how):
        x = x.float() if x.dtype in HALF else x
        if axis is None:
            return getattr(torch, name)(x)
        return getattr(torch, name)(x, dim=axis, keepdim=keep_dims)

    return call


def cast(block, dtype):
    return block.to(dtype)


def trans(block):
    return block.transpose(-1, -2)


def expand_dims(block, axis):
    return block.unsqueeze(axis)


def broadcast_to(block, shape):
    return block.expand(shape)


def multiple_of(block, *what):
    return block


def static_assert(condition, words=""):
    assert condition, words


class _Language(types.SimpleNamespace):
    """What a kernel may use of ``triton.language`` here."""

    def __getattr__(self, name):
        raise AttributeError(f"`tl.{name}` is not in the stand-in for Triton that computes on CPUs (dlojz.training.blocks): "
                             "write it with what is there, such as load, store, where, maximum, exp, sum, max and dot")


_language = _Language(
    constexpr=int, float16=torch.float16, bfloat16=torch.bfloat16, float32=torch.float32, float64=torch.float64, int1=torch.bool,
    int8=torch.int8, int16=torch.int16, int32=torch.int32, int64=torch.int64, uint8=torch.uint8, abs=torch.abs, range=range,
    static_range=range,
    **{name: _float(name) for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "erf", "sigmoid", "sin", "cos", "floor")},
    **{name: _over(in_torch) for name, in_torch in (("sum", "sum"), ("max", "amax"), ("min", "amin"), ("argmax", "argmax"),
                                                    ("argmin", "argmin"))},
    **{function.__name__: function for function in (
        program_id, num_programs, arange, full, zeros, zeros_like, load, store, atomic_add, dot, where, maximum, minimum, cast,
        trans, expand_dims, broadcast_to, multiple_of, static_assert, cdiv)})


def compiles() -> bool:
    """Whether kernels are compiled for a GPU here."""
    return _real() is not None


def _real():
    """Triton, where a GPU can run its kernels and nobody asks for the CPU."""
    if os.environ.get("TRITON_INTERPRET") == "1" or not torch.cuda.is_available():
        return None
    try:
        import triton
        import triton.language
    except ImportError:
        return None
    return triton


def described(tensor, block):
    """``tensor``, of two dimensions, as a unit of the GPU that copies blocks of this size by itself knows it. None where that
    cannot be: no GPU, one older than Hopper or not NVIDIA's, Triton before 3.4, memory that begins at no multiple of 16 bytes."""
    if not compiles() or torch.version.hip or torch.cuda.get_device_capability(tensor.device) < (9, 0) or tensor.data_ptr() % 16:
        return None
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        return None
    return TensorDescriptor.from_tensor(tensor, block)


triton = _real() or types.SimpleNamespace(jit=Kernel, cdiv=cdiv, next_power_of_2=next_power_of_2)
tl = triton.language if hasattr(triton, "language") else _language
