"""A product with int8 weights that reads int8: for a single row of x, whose time is that of reading the weights.

Needs a GPU and Triton. Each program makes a few outputs: it reads their rows of the weights, 16 numbers (128 bits) per thread at
a time, converts them in registers, and multiplies. No number is read twice, no converted weight is ever written.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def int8_product_kernel(x, q, scale, out, outputs, inputs, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EVEN: tl.constexpr):
    """``ROWS`` outputs of one row of x, ``COLUMNS`` inputs at a time. All tensors are contiguous. ``EVEN``: outputs and inputs
    are multiples of these. Sums are float32."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x += tl.program_id(1) * inputs
    out += tl.program_id(1) * outputs
    q += rows[:, None].to(tl.int64) * inputs
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, inputs, COLUMNS):
        columns = tl.broadcast_to(first + tl.arange(0, COLUMNS)[None, :], (ROWS, COLUMNS))
        # x is read once per row of q, in the same layout: sharing it would make all threads wait for each other
        if EVEN:
            number = tl.load(q + columns, eviction_policy="evict_first")
            value = tl.load(x + columns)
        else:
            number = tl.load(q + columns, mask=(rows[:, None] < outputs) & (columns < inputs), other=0)
            value = tl.load(x + columns, mask=columns < inputs, other=0.0)
        total += number.to(tl.float32) * value.to(tl.float32)
    result = tl.sum(total, 1) * tl.load(scale + rows, mask=rows < outputs, other=0.0)
    tl.store(out + rows, result, mask=rows < outputs)


def int8_product(x, q, scale, rows=2, columns=2048, warps=4):
    """x Wᵀ, where W = q * scale. ``x``: float (batch, inputs); ``q``: int8 (outputs, inputs); ``scale``: float32 (outputs, 1).
    Each row of x reads the weights anew: right for one row, or a few."""
    x, q, scale = x.contiguous(), q.contiguous(), scale.contiguous()
    (batch, inputs), outputs = x.shape, len(q)
    out = torch.empty(batch, outputs, dtype=x.dtype, device=x.device)
    even = outputs % rows == 0 and inputs % columns == 0
    int8_product_kernel[(triton.cdiv(outputs, rows), batch)](x, q, scale, out, outputs, inputs, ROWS=rows, COLUMNS=columns,
                                                             EVEN=even, num_warps=warps)
    return out
