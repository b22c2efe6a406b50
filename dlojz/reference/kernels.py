"""What the GPU is asked to do, and kernels of one's own (see the notebook of the lab `kernels`).

Kernels are written in Triton. Without a GPU, the kit's stand-in for Triton runs them block by block on the CPU: slow, and exact.
"""

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from dlojz import todo  # noqa: F401
from dlojz.training.blocks import compiles, described, tl, triton


# ------------------------------------------------------------------------------------------------------ nobody waits
def noisy_loss(outputs, labels, noise=0.1, ignored=-100):
    """Cross entropy of outputs to which normal noise is added, averaged over the images whose label is not ``ignored``; 0 if all
    are.

    ``outputs``: float (images, classes). ``labels``: int64 (images), on the same device. ``noise``: the standard deviation.
    Returns a tensor with one number, on that device, through which gradients flow to ``outputs``.
    """
    # >>> kernels.waits: the host waits for nothing, and copies nothing to the GPU
    counts = labels != ignored
    outputs = outputs + noise * torch.randn_like(outputs)
    losses = functional.cross_entropy(outputs, labels, reduction="none", ignore_index=ignored)
    return losses.sum() / counts.sum().clamp(min=1)
    # <<< kernels.waits


# ------------------------------------------------------------------------------------------------- mean of segments
def segment_mean(values, segments, count):
    """The mean of the rows of each segment; zeros where a segment has no rows.

    ``values``: float32 or float64 (rows, columns). ``segments``: int64 (rows), from 0 to ``count`` - 1, in any order. Returns
    (count, columns) in the type of ``values``, in as many operations for a million segments as for two.
    """
    # >>> kernels.segments: sums and numbers of rows of all segments at once
    sums = values.new_zeros(count, values.shape[1]).scatter_add_(0, segments[:, None].expand_as(values), values)
    rows = values.new_zeros(count).scatter_add_(0, segments, values.new_ones(len(values)))
    return sums / rows.clamp(min=1)[:, None]
    # <<< kernels.segments


# ------------------------------------------------------------------------------------------------------ what is called
class Listing(TorchDispatchMode):
    """In ``with Listing() as calls:``, notes in ``calls.names`` what comes down to the device: ``aten.addmm.default``, …"""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        # >>> kernels.dispatch: note the name, then do what is asked
        self.names.append(str(operation))
        return operation(*args, **(kwargs or {}))
        # <<< kernels.dispatch


# -------------------------------------------------------------------------------------------------- one kernel, not three
@triton.jit
def bias_gelu_kernel(x, bias, out, size, columns, BLOCK: tl.constexpr):
    """One block of ``BLOCK`` numbers of gelu(x + bias), where gelu(y) = 0.5 y (1 + erf(y / sqrt 2)) is computed in float32
    (Hendrycks and Gimpel 2016, arXiv:1606.08415). ``size``: how many numbers x has; ``columns``: of a row, and of bias.
    """
    # >>> kernels.pointwise: read a block of x and its biases, compute, write once
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(x + at, mask=inside).to(tl.float32) + tl.load(bias + at % columns, mask=inside).to(tl.float32)
    tl.store(out + at, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=inside)
    # <<< kernels.pointwise


def bias_gelu(x, bias, block=1024):
    """gelu(x + bias). ``x``: float (…, columns), contiguous; ``bias``: (columns)."""
    out = torch.empty_like(x)
    bias_gelu_kernel[(triton.cdiv(x.numel(), block),)](x, bias, out, x.numel(), x.shape[-1], BLOCK=block)
    return out


# --------------------------------------------------------------------------------------------------- softmax in one pass
@triton.jit
def softmax_kernel(x, out, columns, stride, BLOCK: tl.constexpr):
    """Softmax of one row of ``columns`` numbers, ``BLOCK`` of them at a time. ``stride``: from one row of x to the next; out is
    contiguous. One pass finds the largest number so far and the sum of exp(number - largest) (Milakov and Gimelshein 2018,
    arXiv:1805.02867); a second one writes.
    """
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    out += row * columns
    # >>> kernels.softmax: the largest and the sum so far, corrected when a larger one comes; then write
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        new = tl.maximum(largest, value)
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(largest - shift) + tl.exp(value - shift)
        largest = new
    top = tl.max(largest, 0)
    total = tl.sum(total * tl.exp(largest - top), 0)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        tl.store(out + at, tl.exp(value - top) / total, mask=at < columns)
    # <<< kernels.softmax


def softmax(x, block=0, warps=0):
    """Softmax of each row of ``x``, float (rows, columns), whose numbers of a row follow each other. ``block``: numbers of a row
    that are read at a time; 0: a whole row, up to 8,192."""
    block = block or min(triton.next_power_of_2(x.shape[1]), 8192)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    softmax_kernel[(len(x),)](x, out, x.shape[1], x.stride(0), BLOCK=block, num_warps=warps or max(4, min(16, block // 512)))
    return out


# ------------------------------------------------------------------------------------------- attention, the step after it
@triton.jit
def attention_kernel(q, k, v, out, length, scale, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                     CAUSAL: tl.constexpr, EVEN: tl.constexpr):
    """softmax(scale q kᵀ) v for ``ROWS`` rows of one head, ``COLUMNS`` keys at a time (Dao et al. 2022, arXiv:2205.14135).

    All four tensors are (heads, length, SIZE), contiguous. ``CAUSAL``: a row sees no later column. ``EVEN``: the length is a
    multiple of ROWS and COLUMNS, and the tensors are given as descriptors, of (heads x length, SIZE): a unit of the GPU copies
    such blocks, and no thread computes addresses. Sums are float32.
    """
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * ROWS + tl.arange(0, ROWS)
    depth = tl.arange(0, SIZE)
    begin = head.to(tl.int64) * length * SIZE  # where the head begins, in numbers
    if EVEN:
        query = q.load([head * length + block * ROWS, 0])
    else:
        query = tl.load(q + begin + rows[:, None] * SIZE + depth[None, :], mask=rows[:, None] < length, other=0.0)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, SIZE), tl.float32)
    last = tl.minimum(length, (block + 1) * ROWS) if CAUSAL else length
    for first in range(0, last, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        if EVEN:
            keys = tl.trans(k.load([head * length + first, 0]))
            values = v.load([head * length + first, 0])
        else:
            at = begin + columns * SIZE
            keys = tl.load(k + at[None, :] + depth[:, None], mask=columns[None, :] < length, other=0.0)
            values = tl.load(v + at[:, None] + depth[None, :], mask=columns[:, None] < length, other=0.0)
        # >>> kernels.attention: scores of these columns; the softmax so far and the result so far, corrected
        scores = tl.dot(query, keys, input_precision="ieee")
        if CAUSAL:
            scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
        if not EVEN:
            scores = tl.where(columns[None, :] < length, scores, float("-inf"))
        new = tl.maximum(largest, tl.max(scores, 1) * (scale * 1.4426950408889634))  # exp(x) = exp2(x log2 e)
        weights = tl.exp2(scores * (scale * 1.4426950408889634) - new[:, None])
        shrink = tl.exp2(largest - new)
        total = total * shrink + tl.sum(weights, 1)
        if EVEN:  # read here, they are waited for here, and not before the first product; the compiler drops the load above
            values = v.load([head * length + first, 0])
        result = result * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        largest = new
        # <<< kernels.attention
    result = result / total[:, None]
    if EVEN:
        out.store([head * length + block * ROWS, 0], result.to(out.dtype))
    else:
        tl.store(out + begin + rows[:, None] * SIZE + depth[None, :], result, mask=rows[:, None] < length)


WORTH = 6e10  # FLOPs: fewer take a GPU less time than the host needs to make descriptors, 0.1 ms


def attention(q, k, v, causal=False, rows=0, columns=0, warps=0, stages=0):
    """Attention of ``q``, ``k``, ``v``: (batch, heads, length, size), size 16, 32, 64 or 128. ``rows``, ``columns``: of a block,
    powers of 2 from 16 on; 0: what suits the device."""
    q, k, v = (x.contiguous() for x in (q, k, v))
    *_, length, size = q.shape
    out = torch.empty_like(q)
    given, blocks, tall, wide = [q, k, v, out], [None], rows or 64, columns or 128
    worth = 4 * q.numel() * length >= WORTH
    if worth and size <= 64 and q.element_size() == 2 and length % tall == length % wide == 0:
        blocks = [described(x.view(-1, size), [high, size]) for x, high in zip(given, (tall, wide, wide, tall))]
    even = None not in blocks
    if even:
        rows, columns, given, how = tall, wide, blocks, {"num_stages": stages or 2, "maxnreg": 168}  # so that an SM runs three
    else:
        bytes_each = size * q.element_size()  # of a row: what an SM has room for
        best = (16, 16) if not compiles() else (64, 64) if bytes_each <= 128 else (128, 64 if bytes_each <= 256 else 32)
        rows, columns = rows or best[0], columns or best[1]
        how = {"num_stages": stages or 3}
    grid = (triton.cdiv(length, rows), q.numel() // (length * size))
    attention_kernel[grid](*given, length, size**-0.5, SIZE=size, ROWS=rows, COLUMNS=columns, CAUSAL=causal, EVEN=even,
                           num_warps=warps or (4 if size <= 64 else 8), **how)
    return out
