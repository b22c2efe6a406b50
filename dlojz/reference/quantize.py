"""Fewer bits per number, fewer numbers, fewer layers: what a network's weights can do without (the lab `quantize`).

A weight is (outputs, inputs), as in `torch.nn.Linear`: a row of it makes one output, a channel.
"""

import copy

import torch

from dlojz import todo  # noqa: F401

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


# ------------------------------------------------------------------------------------------------------ scales and zeros
def absmax(weight, group="tensor", bits=8):
    """Quantizes symmetrically: 0 stays 0, and the largest magnitude becomes 2^(bits - 1) - 1 (127 for 8 bits, 7 for 4).

    ``weight``: float (rows, columns). ``group``: which numbers share a scale: ``"tensor"``, ``"channel"`` (a row), or how many
    numbers of a row that follow each other, a divisor of columns. Returns (q, scale): q int8 (rows, columns), rounded to the
    nearest (`torch.round`); scale float32 (1, 1), (rows, 1) or (rows, columns / group), so that weight ≈ q * scale. Where all
    numbers are 0 the scale is 1. Computes in float32, whatever the type of weight.
    """
    # >>> quantize.absmax: the largest magnitude of each group, a scale from it, whole numbers
    rows, columns = weight.shape
    size = {"tensor": weight.numel(), "channel": columns}.get(group, group)
    parts = weight.float().reshape(-1, size)
    scale = parts.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
    scale = torch.where(scale == 0, 1.0, scale)
    q = (parts / scale).round().to(torch.int8)
    return q.view(rows, columns), scale.view(1 if group == "tensor" else rows, -1)
    # <<< quantize.absmax


def dequantize(q, scale):
    """The float32 numbers that q and its scales stand for: what `absmax` gives, the other way."""
    parts = q.float().reshape(*scale.shape, -1) if scale.numel() > 1 else q.float()
    return (parts * (scale[..., None] if scale.numel() > 1 else scale)).reshape(q.shape)


def zero_point(x):
    """Quantizes to 0 … 255 all of the range from the least to the largest number, which includes 0 (Jacob et al. 2018,
    arXiv:1712.05877): for numbers that are not symmetric, such as those after a ReLU.

    ``x``: float, any shape. Returns (q, scale, zero): q uint8 of x's shape; scale a float32 tensor without dimensions, (largest -
    least) / 255, or 1 where all are 0; zero an int32 tensor without dimensions, round(-least / scale): the q of 0, so that
    x ≈ (q - zero) * scale.
    """
    # >>> quantize.zero_point: the range with 0 in it, the scale, and where 0 comes to
    least, largest = x.float().amin().clamp(max=0), x.float().amax().clamp(min=0)
    scale = (largest - least) / 255
    scale = torch.where(scale == 0, 1.0, scale)
    zero = (-least / scale).round().to(torch.int32)
    return ((x / scale).round() + zero).clamp(0, 255).to(torch.uint8), scale, zero
    # <<< quantize.zero_point


# --------------------------------------------------------------------------------------------------- int8 weights in use
def int8_linear(x, q, scale, bias=None):
    """A linear layer with int8 weights: x Wᵀ + bias, where W = q * scale.

    ``x``: float (batch, inputs). ``q``: int8 (outputs, inputs). ``scale``: float32 (outputs, 1), one per channel. Returns (batch,
    outputs) in the type of x. A scale belongs to a whole row of W: it can wait until the products are summed. The weight in float
    is never made. (On a GPU, for a single row of x, the kernel in quantize_kernel.py is faster.)
    """
    # >>> quantize.linear: a product with whole numbers, then a scale per output
    y = (x @ q.to(x.dtype).t()) * scale.t().to(x.dtype)
    return y if bias is None else y + bias
    # <<< quantize.linear


# ------------------------------------------------------------------------------------------------------ two in one byte
def pack(q):
    """Two 4-bit numbers in a byte. ``q``: int8 (rows, columns), each from -8 to 7, columns even. Returns uint8 (rows, columns /
    2): the first of each two numbers is in the lower four bits, in two's complement (-1 is 1111)."""
    # >>> quantize.pack: the lower half of each byte, and the upper one
    q = q.to(torch.uint8) & 15
    return q[:, ::2] | (q[:, 1::2] << 4)
    # <<< quantize.pack


def unpack(packed):
    """What `pack` was given: ``packed``: uint8 (rows, columns / 2). Returns int8 (rows, columns)."""
    # >>> quantize.unpack: both halves, the sign of each, and their order
    q = torch.stack((packed & 15, packed >> 4), dim=2).to(torch.int8).flatten(1)
    return torch.where(q > 7, q - 16, q)
    # <<< quantize.unpack


# ------------------------------------------------------------------------------------------------------ 8 bits that float
def to_fp8(x, dtype=E4M3):
    """Scales so that the largest magnitude of x becomes the largest number of the type (448 in E4M3, 57344 in E5M2), and converts
    (Micikevicius et al. 2022, arXiv:2209.05433).

    ``x``: float, any shape. Returns (q, scale): q in ``dtype``, scale a float32 tensor without dimensions, amax / largest number,
    or 1 where x is 0, so that x ≈ q * scale. What rounding has made larger than the largest number is cut off: a conversion
    past it gives NaN, or infinity, in some versions of PyTorch.
    """
    # >>> quantize.fp8: amax, the scale, and no number past the largest
    most = torch.finfo(dtype).max
    scale = x.float().abs().amax() / most
    scale = torch.where(scale == 0, 1.0, scale)
    return (x.float() / scale).clamp(-most, most).to(dtype), scale
    # <<< quantize.fp8


def fp8_linear(x, weight):
    """x Wᵀ computed in FP8, both in E4M3 with a scale per tensor. ``x``: (batch, inputs), ``weight``: (outputs, inputs); inputs
    and outputs multiples of 16. Returns (batch, outputs) in the type of x. `torch._scaled_mm` multiplies: its second matrix has
    to be the transposed view of one in rows."""
    # >>> quantize.fp8_linear: both in FP8, their product, and both scales
    x8, scale_x = to_fp8(x)
    w8, scale_w = to_fp8(weight)
    return torch._scaled_mm(x8, w8.t(), scale_a=scale_x, scale_b=scale_w, out_dtype=x.dtype)
    # <<< quantize.fp8_linear


# ------------------------------------------------------------------------------------------------------------ 2 of 4
def prune_2_4(weight):
    """Of each four numbers of a row that follow each other, keeps the two of largest magnitude and makes the others 0: the
    pattern that sparse tensor cores skip (Mishra et al. 2021, arXiv:2104.08378). Of equal magnitudes the first stays.

    ``weight``: (rows, columns), columns a multiple of 4. Returns a new tensor of its type.
    """
    # >>> quantize.prune: the order of magnitudes in each four, and zeros for the last two
    parts = weight.reshape(-1, 4)
    smallest = parts.abs().sort(dim=1, descending=True, stable=True).indices[:, 2:]
    return parts.scatter(1, smallest, 0).view_as(weight)
    # <<< quantize.prune


# ------------------------------------------------------------------------------------------- no batch norm in production
def fold(weight, bias, mean, variance, eps, gamma, beta):
    """The weight and bias of a convolution that computes batchnorm(convolution(x)), in evaluation mode.

    ``weight``: (filters, channels, height, width). All others but ``eps`` have one number per filter: ``bias`` of the
    convolution, or None; running ``mean`` and ``variance``; batch norm's weight ``gamma`` and bias ``beta``. Batch norm computes
    (y - mean) / sqrt(variance + eps) * gamma + beta. Returns (weight, bias).
    """
    # >>> quantize.fold: one factor per filter, and what is added after it
    factor = gamma / torch.sqrt(variance + eps)
    return weight * factor[:, None, None, None], ((0 if bias is None else bias) - mean) * factor + beta
    # <<< quantize.fold


def folded(net):
    """A copy of a network for evaluation without the batch norms that follow a convolution of their own (`fold`)."""
    net = copy.deepcopy(net).eval()
    graph = torch.fx.symbolic_trace(net).graph
    modules = dict(net.named_modules())
    for node in graph.nodes:
        norm = modules.get(node.target) if node.op == "call_module" else None
        before = node.args[0] if isinstance(norm, torch.nn.BatchNorm2d) else None
        conv = modules.get(before.target) if before is not None and before.op == "call_module" else None
        if isinstance(conv, torch.nn.Conv2d) and len(before.users) == 1:
            gamma = torch.ones_like(norm.running_mean) if norm.weight is None else norm.weight
            beta = torch.zeros_like(norm.running_mean) if norm.bias is None else norm.bias
            with torch.no_grad():
                weight, bias = fold(conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, gamma, beta)
            conv.weight, conv.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
            parent, _, name = node.target.rpartition(".")
            setattr(net.get_submodule(parent), name, torch.nn.Identity())
    return net
