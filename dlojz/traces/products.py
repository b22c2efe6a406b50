"""The arithmetic of matrix products and convolutions, counted from the sizes that ``record_shapes=True`` records."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..system.cards import card as card
from .reading import PRODUCTS, Call

BYTES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "long int": 8, "long": 8, "int": 4, "short": 2, "char": 1,
         "signed char": 1, "byte": 1, "unsigned char": 1, "bool": 1}


def dtype(name) -> str:
    """``float``, ``half``, ``bfloat16`` of what traces call ``float``, ``c10::Half``, ``Float``."""
    return str(name).removeprefix("c10::").lower()


MOST = 1e21  # operations and bytes: no operator does more, and such sizes are broken
ARITHMETIC_OPERATORS = re.compile(r"conv(?!ert)|(?<![a-z])(add|badd|sspadd|s|ds|h)?b?mm(?![a-z])|linear|attention|matmul|gemm"
                                  "|einsum")


def is_product(operator: str) -> bool:
    """Whether an operator is a matrix product or a convolution."""
    name = operator.split("::")[-1]
    return operator in PRODUCTS or bool(ARITHMETIC_OPERATORS.search(name) and "Backward" not in name and "upsample" not in name)


@dataclass(frozen=True)
class Product:
    """Floating-point operations, the bytes that its tensors have (each read or written once), and the sizes that tensor cores
    want as multiples of 8."""

    flops: float
    bytes: float
    dtype: str
    sizes: tuple[int, ...]

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0


def product(call: Call) -> Product | None:
    """What this operator computes; None where it is none of these, or its sizes are not recorded or can be none."""
    try:
        found = _counted(call)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return found if found is not None and 0 <= found.flops < MOST and 0 < found.bytes < MOST else None


def _counted(call: Call) -> Product | None:
    args = call.args or {}
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list) or not dims:
        return None
    name = call.name.split("::")[-1]
    if "convolution_backward" in name:
        return _backward(dims, types, args)
    if "conv" in name:
        return _convolution(name, dims, types, args)
    if name in ("mm", "bmm", "addmm", "baddbmm"):
        first = 1 if name in ("addmm", "baddbmm") else 0
        return _matrices(dims[first], dims[first + 1], dtype(types[first]))
    if name == "linear":
        return _matrices(dims[0], dims[1][::-1], dtype(types[0]))
    return None


def _matrices(a: list[int], b: list[int], kind: str) -> Product:
    batch = math.prod(a[:-2]) if len(b) > 2 else 1
    m, k, n = (math.prod(a[:-1]) if len(b) == 2 else a[-2]), a[-1], b[-1]
    moved = batch * (m * k + k * n + m * n) * BYTES.get(kind, 4)
    return Product(2.0 * batch * m * k * n, moved, kind, (m, k, n))


def _numbers(text) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", str(text))]


def _convolution(name: str, dims: list, types: list, args: dict) -> Product:
    image, weight = dims[0], dims[1]
    given = args.get("Concrete Inputs") or []
    lists = [_numbers(text) for text in given if str(text).startswith("[")]
    space = len(image) - 2
    if name.startswith(("_slow", "thnn", "_conv_depthwise", "slow")):  # kernel size, then stride, padding
        lists = lists[1:]
        stride, padding = [*lists, [1], [0]][:2]
    elif "miopen" in name or "cudnn" in name or "mkldnn" in name:
        padding, stride = [*lists, [0], [1]][:2]
    else:
        stride, padding = [*lists, [1], [0]][:2]
    dilation = lists[2] if name == "convolution" and len(lists) > 2 else [1]
    stride, padding, dilation = (some * space if len(some) == 1 else some for some in (stride, padding, dilation))
    out = [max(0, (image[2 + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1) // stride[i] + 1) for i in range(space)]
    size = BYTES.get(dtype(types[0]), 4)
    pixels = image[0] * math.prod(out)
    flops = 2.0 * pixels * math.prod(weight)
    moved = (math.prod(image) + math.prod(weight) + pixels * weight[0]) * size
    return Product(flops, moved, dtype(types[0]), (weight[1], weight[0]))


def _backward(dims: list, types: list, args: dict) -> Product:
    out, image, weight = dims[:3]
    wanted = str((args.get("Concrete Inputs") or [""])[-1])
    wanted = [word == "True" for word in re.findall(r"True|False", wanted)][:2] or [True, True]
    flops = 2.0 * math.prod(out) / out[1] * math.prod(weight) * sum(wanted)
    moved = (math.prod(out) + math.prod(weight) + math.prod(image)) * sum(wanted) * BYTES.get(dtype(types[0]), 4)
    return Product(flops, moved, dtype(types[0]), (weight[1], weight[0]))
