"""What operators cost: floating-point operations, bytes, and the time that a machine needs at least (the lab `roofline`).

A multiplication and an addition are two operations. Bytes are those of tensors that are read, and of the result that is written,
each once; ``size``: bytes of one number (4 in float32, 2 in bfloat16). Operators return (operations, bytes) of a forward pass.
"""

import math

from dlojz import todo  # noqa: F401


# ------------------------------------------------------------------------------------------------ operations and bytes
def linear(batch, inputs, outputs, size):
    """y = x Wᵀ, without a bias: x (batch, inputs), W (outputs, inputs), y (batch, outputs)."""
    # >>> roofline.linear: operations and bytes of a layer whose weights serve all rows of a batch
    return 2 * batch * inputs * outputs, size * (batch * inputs + inputs * outputs + batch * outputs)
    # <<< roofline.linear


def convolution(images, channels, height, width, filters, kernel, stride, padding, groups, size):
    """A 2D convolution without a bias: x (images, channels, height, width), W (filters, channels / groups, kernel, kernel)."""
    # >>> roofline.convolution: the sides of the output, then operations and bytes
    high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    weights, results = filters * (channels // groups) * kernel**2, images * filters * high * wide
    return 2 * images * high * wide * weights, size * (images * channels * height * width + weights + results)
    # <<< roofline.convolution


def pooling(images, channels, height, width, kernel, stride, padding, size):
    """The largest number of each window. A comparison is one operation, so a window of 9 numbers takes 8."""
    # >>> roofline.pooling: operations and bytes without weights
    high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    results = images * channels * high * wide
    return results * (kernel**2 - 1), size * (images * channels * height * width + results)
    # <<< roofline.pooling


def relu(numbers, size):
    """max(x, 0), out of place: one operation per number."""
    # >>> roofline.relu: operations and bytes of a pointwise operator
    return numbers, 2 * numbers * size
    # <<< roofline.relu


def layer_norm(rows, columns, size):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the numbers of a row. Count eight operations per number: 1 for the
    mean, 3 for the variance, 4 for the rest. Weight and bias have ``columns`` numbers each, of the same size as those of x."""
    # >>> roofline.layer_norm: operations and bytes of a norm with its parameters
    return 8 * rows * columns, size * (2 * rows * columns + 2 * columns)
    # <<< roofline.layer_norm


# ------------------------------------------------------------------------------------------------------- the roofline
def seconds(flops, moved, peak, bandwidth):
    """The least that an operator takes on a machine with ``peak`` FLOP/s and ``bandwidth`` bytes/s, if arithmetic and memory work
    at the same time (Williams, Waterman and Patterson 2009, DOI 10.1145/1498765.1498785)."""
    # >>> roofline.seconds: the time that two limits allow
    return max(flops / peak, moved / bandwidth)
    # <<< roofline.seconds


def useful(m, n, tile_m, tile_n, processors):
    """What fraction of the time of a product (m, k) x (k, n) computes numbers of the result.

    The result is cut into tiles of ``tile_m`` x ``tile_n``; those at the edges are computed whole. Each of the ``processors``
    takes one tile at a time, all tiles take equally long, and a wave of tiles ends before the next one begins.
    """
    # >>> roofline.useful: tiles, waves, and the fraction that is useful
    waves = math.ceil(math.ceil(m / tile_m) * math.ceil(n / tile_n) / processors)
    return m * n / (waves * processors * tile_m * tile_n)
    # <<< roofline.useful
