"""What the check of quantize calls the functions with; the simplest first.

Numbers to quantize are whole numbers plus at most 0.3, times the scale: none is so near to the middle between two that the order
of the operations decides where it goes.
"""

import torch


def _near(rows, columns, group, scales, most=127):
    """(rows, columns) numbers whose groups have these scales: one number of each is ± ``most`` times it, others are smaller."""
    count = rows * columns // group
    whole = torch.randint(1 - most, most, (count, group)).float() + 0.6 * torch.rand(count, group) - 0.3
    at = torch.arange(count) * 5 % group
    whole[torch.arange(count), at] = torch.where(torch.arange(count) % 3 == 0, -1.0, 1.0) * most
    return (whole * scales.reshape(-1, 1)).reshape(rows, columns)


def weights():
    yield "1 row of 4 numbers, a scale per tensor", (torch.tensor([[1.0, -2.0, 0.2, 4.0]]),)
    yield "3 rows of 8, a scale per tensor, the largest is negative", (_near(3, 8, 24, torch.tensor([0.03])), "tensor")
    yield "3 rows of 8, a scale per channel", (_near(3, 8, 8, torch.tensor([0.01, 2.0, 0.5])), "channel")
    yield "3 rows of 8, a scale per group of 4", (_near(3, 8, 4, torch.tensor([0.01, 2.0, 0.5, 0.02, 1.0, 0.3])), 4)
    yield "3 rows of 8 in 4 bits, a scale per channel", (_near(3, 8, 8, torch.tensor([0.01, 2.0, 0.5]), 7), "channel", 4)
    yield "4 rows of 64 in 4 bits, a scale per group of 32", (_near(4, 64, 32, torch.rand(8) + 0.1, 7), 32, 4)
    yield "a row of zeros, a scale per channel", (torch.cat((torch.zeros(1, 8), _near(1, 8, 8, torch.tensor([0.1])))), "channel")
    yield "bfloat16, a scale per tensor", (_near(2, 8, 16, torch.tensor([0.25]), 100).bfloat16(), "tensor")
    yield "a transposed view, a scale per channel", (_near(6, 4, 24, torch.tensor([0.2])).t(), "channel")


def ranges():
    def of(zero, scale, shape=(4, 8)):
        whole = torch.randint(0, 256, shape).float() + 0.6 * torch.rand(shape) - 0.3
        whole.flatten()[:2] = torch.tensor([0.0, 255.0])
        return (whole - zero) * scale

    yield "numbers from -100 to 155", (of(100, 1.0),)
    yield "as after a ReLU: no number is negative", (of(0, 0.02),)
    yield "no number is positive", (of(255, 0.5, (32,)),)
    yield "numbers from 0.5 to 2 only: 0 is in the range all the same", (torch.tensor([0.5, 1.0, 2.0]),)
    yield "zeros", (torch.zeros(2, 3),)
    yield "bfloat16", (torch.tensor([-1.0, 0.0, 0.5, 1.55]).bfloat16(),)


def layers():
    q = torch.randint(-127, 128, (5, 8), dtype=torch.int8)
    scale = torch.rand(5, 1) + 0.01
    yield "1 row of 2 numbers, 1 output, without a bias", (
        torch.tensor([[1.0, 2.0]]), torch.tensor([[100, -10]], dtype=torch.int8), torch.tensor([[0.5]]))
    yield "3 rows, 5 outputs, a scale each", (torch.randn(3, 8), q, scale)
    yield "3 rows, 5 outputs, with a bias", (torch.randn(3, 8), q, scale, 100 * torch.randn(5))
    yield "bfloat16, with a bias", (torch.randn(3, 8).bfloat16(), q, scale, (100 * torch.randn(5)).bfloat16())
    yield "float64", (torch.randn(3, 8, dtype=torch.float64), q, scale)


def nibbles():
    yield "1 and 2", (torch.tensor([[1, 2]], dtype=torch.int8),)
    yield "-1 and 3", (torch.tensor([[-1, 3]], dtype=torch.int8),)
    yield "3 and -8", (torch.tensor([[3, -8]], dtype=torch.int8),)
    yield "a row of 8 numbers", (torch.tensor([[0, 1, 2, 3, -1, -2, -3, -4]], dtype=torch.int8),)
    every = torch.arange(-8, 8, dtype=torch.int8)
    yield "all pairs", (torch.stack((every.repeat(16), every.repeat_interleave(16)), 1).reshape(16, 32),)
    yield "a transposed view", (torch.randint(-8, 8, (6, 4), dtype=torch.int8).t(),)


def packed():
    yield "the byte 0x21", (torch.tensor([[0x21]], dtype=torch.uint8),)
    yield "the byte 0x3F", (torch.tensor([[0x3F]], dtype=torch.uint8),)
    yield "the byte 0x83", (torch.tensor([[0x83]], dtype=torch.uint8),)
    yield "2 rows of 2 bytes", (torch.tensor([[0x10, 0x32], [0xF4, 0x8F]], dtype=torch.uint8),)
    yield "all bytes", (torch.arange(256, dtype=torch.int16).to(torch.uint8).view(16, 16),)


def floats():
    def numbers(dtype, scale, shape=(4, 16)):
        most = torch.finfo(dtype).max
        x = (torch.randn(shape) * most / 8).clamp(-most, most).to(dtype).float()
        x.flatten()[3] = -most
        return x * scale

    yield "4 numbers in E4M3", (torch.tensor([1.0, -448.0, 0.5, 20.0]), torch.float8_e4m3fn)
    yield "E4M3, all smaller than 1", (numbers(torch.float8_e4m3fn, 2.0**-11), torch.float8_e4m3fn)
    yield "E4M3, larger than its largest number", (numbers(torch.float8_e4m3fn, 64.0), torch.float8_e4m3fn)
    yield "E5M2", (numbers(torch.float8_e5m2, 2.0**-12), torch.float8_e5m2)
    yield "zeros", (torch.zeros(2, 4), torch.float8_e4m3fn)
    yield "bfloat16, E4M3", (numbers(torch.float8_e4m3fn, 0.25).bfloat16(), torch.float8_e4m3fn)


def _in_fp8(rows, columns, scale):
    x = (torch.randn(rows, columns) * 100).clamp(-448, 448).to(torch.float8_e4m3fn).float()
    x[0, 0] = 448
    return x * scale


def products():
    """Nothing where this PyTorch cannot multiply in FP8 on a CPU."""
    if multiplies():
        yield "1 row of 16 numbers, 16 outputs", (_in_fp8(1, 16, 1.0), _in_fp8(16, 16, 1.0))
        yield "4 rows, x is small", (_in_fp8(4, 32, 2.0**-12), _in_fp8(16, 32, 1.0))
        yield "4 rows, x and weight are small", (_in_fp8(4, 32, 2.0**-10), _in_fp8(16, 32, 2.0**-14))
        yield "16 rows, 48 outputs", (_in_fp8(16, 32, 0.25), _in_fp8(48, 32, 0.5))
        yield "bfloat16", (_in_fp8(4, 32, 0.25).bfloat16(), _in_fp8(16, 32, 0.5).bfloat16())


def multiplies() -> bool:
    one = torch.ones(())
    try:
        torch._scaled_mm(torch.ones(16, 16).to(torch.float8_e4m3fn), torch.ones(16, 16).to(torch.float8_e4m3fn).t(), scale_a=one,
                         scale_b=one, out_dtype=torch.float32)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return True


def able(module, note):
    note("scaled_mm", works=multiplies(), version=torch.__version__)


def dense():
    yield "4 numbers", (torch.tensor([[0.1, -3.0, 2.0, 0.5]]),)
    yield "8 numbers of one row", (torch.tensor([[1.0, 2.0, 3.0, 4.0, -4.0, -3.0, -2.0, -1.0]]),)
    yield "equal magnitudes", (torch.tensor([[1.0, -1.0, 1.0, -1.0]]),)
    yield "one number that is not 0", (torch.tensor([[0.0, 0.0, 0.0, 5.0]]),)
    yield "16 rows of 64", (torch.randn(16, 64),)
    yield "few different numbers, many equal magnitudes", (torch.randint(-2, 3, (16, 64)).float(),)
    yield "bfloat16", (torch.randn(4, 16).bfloat16(),)
    yield "a transposed view", (torch.randn(8, 6).t(),)


def norms():
    def of(filters, shape, bias=True, eps=1e-5):
        one = torch.randn(filters, dtype=torch.float64)
        return (torch.randn(filters, *shape, dtype=torch.float64), one if bias else None, torch.randn_like(one),
                torch.rand_like(one) + 0.1, eps, torch.randn_like(one), torch.randn_like(one))

    two = torch.tensor([[[[2.0]]]])
    zero, one, three, four, five, seven = torch.tensor([[0.0], [1.0], [3.0], [4.0], [5.0], [7.0]])
    yield "1 filter of 1 x 1, no bias, mean 0, variance 1, beta 0", (two, None, zero, one, 0.0, three, zero)
    yield "1 filter of 1 x 1, no bias", (two, None, five, four, 0.0, three, one)
    yield "the same with the bias 7", (two, seven, five, four, 0.0, three, one)
    yield "eps 0.5", of(4, (3, 3, 3), eps=0.5)
    yield "as many filters as channels: 4 of 4 x 3 x 3", of(4, (4, 3, 3))
    yield "8 filters, no bias", of(8, (3, 3, 3), bias=False)
    yield "a variance of almost 0", (torch.randn(2, 1, 1, 1, dtype=torch.float64), None, torch.zeros(2, dtype=torch.float64),
                                     torch.zeros(2, dtype=torch.float64), 1e-5, torch.ones(2, dtype=torch.float64),
                                     torch.ones(2, dtype=torch.float64))
