"""What the check of kernels calls the functions with, and what it looks at of those whose results depend on random numbers."""

import torch
from torch.nn import functional


# ------------------------------------------------------------------------------------------------------------ noisy_loss
def losses():
    yield "4 images, all of which count", given(4, 3, ())
    yield "4 images, one of which is ignored", given(4, 3, (1,))
    yield "2 images, both ignored", given(2, 3, (0, 1))
    yield "64 images on the GPU, a quarter ignored", tuple(one.to("cuda") for one in given(64, 10, range(0, 64, 4)))


def noises():
    for noise in (0.0, 3.0):
        yield f"2048 images, noise {noise:g}", (*given(2048, 8, range(0, 2048, 2)), noise)


def given(images, classes, ignored):
    labels = torch.arange(images) % classes
    labels[list(ignored)] = -100
    return torch.randn(images, classes), labels


def without_noise(module):
    """The loss and its gradient; random numbers may be drawn in any way."""
    def call(outputs, labels):
        outputs = outputs.clone().requires_grad_()
        loss = module.noisy_loss(outputs, labels, 0.0)
        loss.backward()
        torch.manual_seed(0)
        return {"the loss": loss.detach(), "its gradient": outputs.grad}

    return call


def with_noise(module):
    def call(outputs, labels, noise):
        loss = module.noisy_loss(outputs, labels, noise)
        torch.manual_seed(0)
        return loss

    return call


def on_the_gpu(module, note):
    """One call, watched: what is sent to the GPU."""
    outputs, labels = (one.to("cuda") for one in given(64, 10, range(0, 64, 4)))
    module.noisy_loss(outputs, labels)


# -------------------------------------------------------------------------------------------------------------- segments
def rows():
    yield "4 rows of 1 column in 2 segments", (torch.tensor([[1.0], [2.0], [3.0], [6.0]]), torch.tensor([0, 0, 1, 1]), 2)
    yield "an empty segment", (torch.tensor([[1.0], [2.0]]), torch.tensor([0, 2]), 3)
    yield "rows in any order", (torch.randn(50, 7), torch.randint(5, (50,)), 5)
    yield "float64", (torch.randn(50, 3, dtype=torch.float64), torch.randint(9, (50,)), 9)
    yield "on the GPU", (torch.randn(20, 4, device="cuda"), torch.arange(20, device="cuda") % 6, 6)
    yield "200 segments", (torch.randn(400, 2), torch.arange(400) % 200, 200)


# --------------------------------------------------------------------------------------------------------------- listing
def programs():
    x, weight, bias = torch.randn(2, 3, 8), torch.randn(4, 8), torch.randn(4)
    yield "a sum", (lambda: x.sum(),)
    yield "zeros, with a type and a shape by name", (lambda: torch.zeros(size=(2,), dtype=torch.float64),)
    yield "a linear layer", (lambda: functional.linear(x, weight, bias),)
    yield "layer norm, GELU, mean", (lambda: functional.gelu(functional.layer_norm(x, (8,))).mean(),)


def listed(module):
    def call(program):
        with module.Listing() as calls:
            result = program()
        return {"the result": result, "the names": ", ".join(calls.names)}

    return call


# --------------------------------------------------------------------------------------------------------------- kernels
def biases():
    yield "2 rows of 16 numbers, in one block of 32", (torch.randn(2, 16), torch.randn(16), 32)
    yield "2 rows of 16 numbers, in blocks of 8", (torch.randn(2, 16), torch.randn(16), 8)
    yield "3 rows of 37 numbers, in blocks of 32", (torch.randn(3, 37), torch.randn(37), 32)
    yield "one number", (torch.randn(1, 1), torch.randn(1), 16)
    yield "numbers up to 100", (100 * torch.randn(5, 13), torch.randn(13), 16)
    for dtype in (torch.bfloat16, torch.float16):
        yield f"{str(dtype)[6:]}", (torch.randn(3, 5, 7).to(dtype), torch.randn(7).to(dtype), 64)


def softmaxes():
    yield "1 row of 16 numbers, in one block", (torch.randn(1, 16), 16)
    yield "2 rows of 32 numbers, in two blocks", (torch.randn(2, 32), 16)
    yield "3 rows of 37 numbers, in blocks of 16", (torch.randn(3, 37), 16)
    yield "negative numbers, fewer than a block has", (-5 - torch.rand(2, 5), 16)
    yield "numbers around 1000", (1000 + 10 * torch.randn(2, 50), 16)
    yield "every other row of a tensor", (torch.randn(6, 20)[::2], 8)
    masked = torch.randn(2, 40)
    masked[:, :17] = -torch.inf
    yield "a row that begins with -inf", (masked, 16)
    for dtype in (torch.bfloat16, torch.float16):
        yield f"{str(dtype)[6:]}, numbers up to 50", ((20 * torch.randn(2, 33)).to(dtype), 16)


def attentions():
    def qkv(*shape, dtype=torch.float32, large=1.0):
        return tuple((large * torch.randn(shape)).to(dtype) for _ in range(3))

    yield "16 keys, one block", (*qkv(1, 1, 16, 16), False, 16, 16)
    yield "32 keys, two blocks", (*qkv(1, 1, 32, 16), False, 16, 16)
    yield "37 keys: the last block is not full", (*qkv(1, 2, 37, 16), False, 16, 16)
    yield "causal, 32 keys", (*qkv(1, 1, 32, 16), True, 16, 16)
    yield "causal, 45 keys, blocks of 16 x 32", (*qkv(2, 1, 45, 16), True, 16, 32)
    yield "scores up to 200", (*qkv(1, 1, 40, 32, large=7.0), False, 16, 16)
    for dtype in (torch.float16, torch.bfloat16):
        yield f"{str(dtype)[6:]}, 40 keys", (*qkv(1, 1, 40, 32, dtype=dtype), False, 16, 16)
