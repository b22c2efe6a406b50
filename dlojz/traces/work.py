"""What the operators of a step have to do: arithmetic, and bytes that they have to read and write, by class of operator.

Counted from the sizes that ``record_shapes=True`` records, on a CPU or a GPU, eager PyTorch (a compiled program has kernels
instead of operators). Each tensor is read or written once: that is the least an operator can move. Of operators in operators the
outermost that has a rule counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .loop import in_range
from .products import BYTES, MOST, dtype, product
from .reading import NO_WORK, Call

PRODUCT_CLASSES = ("convolution", "grouped convolution", "matrix product", "attention")
CLASSES = (*PRODUCT_CLASSES, "norm", "pointwise", "pooling", "softmax and loss", "reduction", "indexing", "copy", "optimizer")

# By name of the operator, without `aten::`; the first that matches.
_RULES = tuple((name, re.compile(pattern)) for name, pattern in (
    ("attention", r"_scaled_dot_product_(flash|efficient|cudnn|fused|flash_attention_for_cpu)\w*"),
    ("convolution", r"convolution|convolution_overrideable|convolution_backward"),
    ("matrix product", r"s?(add)?b?addbmm|b?mm|addmm|baddbmm|addmv|mv|dot|_scaled_mm|mkldnn_linear|_linear_pointwise"),
    ("norm", r"(native|cudnn|miopen|mkldnn)_(batch|layer|group)_norm\w*|_batch_norm_\w+|batch_norm_backward|_?fused_rms_norm\w*"
             r"|_fused_layer_norm\w*"),
    ("pooling", r"(max|avg|fractional_max|_?adaptive_(max|avg))_pool\dd(_with_indices)?(_backward)?"),
    ("softmax and loss", r"_(log_)?softmax(_backward_data)?|nll_loss\w*(forward|backward)|_softmax_backward"),
    ("optimizer", r"_fused_(sgd|adam|adamw|adagrad)_?|_foreach_\w+|_amp_\w+"),
    ("reduction", r"sum|mean|amax|amin|max|min|argmax|argmin|norm|linalg_vector_norm|var|std|var_mean|cumsum|prod|any|all"
                  r"|topk|sort"),
    ("indexing", r"index\w*|gather|scatter\w*|embedding|embedding_dense_backward|_index_put_impl_|bincount|nonzero|masked_\w+"),
    ("pointwise", r"(silu|hardswish|mish|hardtanh|elu|celu|selu|leaky_relu|hardsigmoid)_"),
    ("copy", r"copy_|clone|cat|fill_|zero_|stack|_foreach_copy_|constant_pad_nd|roll|repeat"),
))
WRITES_ONLY = frozenset(("fill_", "zero_"))  # the first argument
READS_ALL = frozenset(("copy_", "_foreach_copy_"))  # the first is written, and not read
UPDATE = "Optimizer.step"
EACH = {"norm": 5, "copy": 0, "indexing": 0}  # operations for each number, else 1: far below what the memory allows in any case


@dataclass(frozen=True)
class Work:
    """What one call has to do. ``kind``: its class; ``dtype``: the type that it computes in, as traces call it."""

    kind: str
    flops: float
    bytes: float
    dtype: str


def of(calls: Iterable[Call]) -> list[tuple[Call, Work]]:
    """The calls that do the work of a stretch, in their order."""
    candidates = [call for call in calls if call.kind == "op" and call.args and not NO_WORK.fullmatch(call.name)]
    named = {id(call): _class(call.name) for call in candidates}
    outer: set[int] = set()  # without a rule, and with work inside: their parts count
    for call in candidates:
        # A number that becomes a tensor inside of an operator, as in `mul_(0.9)` on a CPU, is no part of its work.
        if any(_tensors(call.args.get("Input Dims"), call.args.get("Input type"))):
            outer |= {id(around) for around in call.around() if around.kind == "op"}
    found = []
    for call in candidates:
        kind = named[id(call)]
        if (not kind and id(call) in outer) or any(named.get(id(around)) for around in call.around()):
            continue
        done = _work(call, kind or "pointwise")
        if done is not None:
            found.append((call, done))
    return found


def _class(name: str) -> str:
    bare = name.split("::")[-1]
    return next((kind for kind, pattern in _RULES if pattern.fullmatch(bare)), "")


def _work(call: Call, kind: str) -> Work | None:
    try:
        found = _counted(call, kind)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return found if found and 0 <= found.flops < MOST and 0 <= found.bytes < MOST else None


def _counted(call: Call, kind: str) -> Work | None:
    name = call.name.split("::")[-1]
    tensors = list(_tensors(call.args.get("Input Dims"), call.args.get("Input type")))
    if not tensors:
        return None
    main = max(tensors, key=lambda one: one[0])
    if in_range(call, UPDATE):
        kind = "optimizer"
    if kind in ("convolution", "matrix product") and (found := product(call)) is not None:
        return Work(_grouped(call, kind), found.flops, found.bytes, found.dtype)
    if kind == "attention":
        return _attention(name, call, tensors)
    if kind in PRODUCT_CLASSES:
        return None
    read = sum(count * size for count, size, _ in tensors)
    written = main[0] * main[1]
    if name in WRITES_ONLY:
        read = 0
    elif name in READS_ALL:
        written = 0  # it is among the arguments
    elif kind == "reduction" or (kind in ("pooling", "softmax and loss") and name.startswith(("nll", "adaptive", "_adaptive"))):
        written = 0
    elif kind == "pooling" and "indices" in name:  # an int64 for each number of the small side, next to it
        small = min(count for count, _, _ in tensors) if "backward" in name else main[0] // 4
        written = main[0] * main[1] if "backward" in name else small * (main[1] + 8)
    elif name.endswith("_") and kind == "optimizer":
        written = sum(count * size for count, size, at in tensors if at == 0)
    elif kind == "indexing":
        written = tensors[0][0] * tensors[0][1]
    elif name.endswith("_"):
        passes = 3 if _class(call.name) else 1  # those with a rule: autograd has their input copied first
        written = tensors[0][0] * tensors[0][1] * passes
    each = EACH.get(kind, 1)
    return Work(kind, float(each * main[0]), float(read + written), _type(call, main[0]))


def _tensors(dims, types):
    """(numbers, bytes of one, which argument) of each tensor, also of those in lists."""
    if not isinstance(dims, list) or not isinstance(types, list):
        return
    for at, (shape, kind) in enumerate(zip(dims, types)):
        if not isinstance(shape, list) or not shape:
            continue
        shapes = shape if isinstance(shape[0], list) else [shape]
        size = BYTES.get(dtype(kind), 4 if kind == "TensorList" or isinstance(shape[0], list) else 0)
        for one in shapes:
            if size and one and all(type(side) is int for side in one):
                yield math.prod(one), size, at


def _type(call: Call, numbers: int) -> str:
    """The type of the largest argument."""
    for shape, kind in zip(call.args["Input Dims"], call.args["Input type"]):
        if isinstance(shape, list) and shape and not isinstance(shape[0], list) and math.prod(shape) == numbers:
            return dtype(kind)
    return "float"


def _grouped(call: Call, kind: str) -> str:
    """Convolutions in groups, such as depthwise ones, are another thing for a GPU: little arithmetic for each number."""
    if kind != "convolution":
        return kind
    dims = call.args["Input Dims"]
    image, weight = (dims[1], dims[2]) if "backward" in call.name else (dims[0], dims[1])
    return "grouped convolution" if weight[1] < image[1] else kind


def _attention(name: str, call: Call, tensors: list) -> Work:
    """2 products of length x length x size for each head, 5 in the backward pass, which computes the first anew (Dao et al. 2022,
    arXiv:2205.14135); half of them where no row sees what comes later."""
    dims, kind = call.args["Input Dims"], dtype(call.args["Input type"][0])
    backward = "backward" in name
    batch, heads, length, size = dims[1] if backward else dims[0]
    others = (dims[2] if backward else dims[1])[2]
    whole = 2.0 * batch * heads * length * others * size * (5 if backward else 2)
    causal = "True" in [str(value) for value in call.args.get("Concrete Inputs") or []]
    moved = batch * heads * size * (length + others) * (4 if backward else 2) * BYTES.get(kind, 4)
    return Work("attention", whole / 2 if causal else whole, moved, kind)
