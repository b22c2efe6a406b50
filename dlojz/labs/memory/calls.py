"""What the check of memory calls the functions of saving.py with, and what it looks at while they run."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from dlojz.training.memory_plan import Count

HIDDEN, VOCABULARY = 96, 64
INSIDE = 8 * HIDDEN * 4  # bytes of each result inside the block. Its weights, of which operators make views, have twice as many


class Products(TorchDispatchMode):
    """Counts the products of linear layers, forward or once more."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.addmm.default
        return func(*args, **(kwargs or {}))


def live(count: Count) -> list[int]:
    """The sizes of storages that are there now."""
    there: dict[int, int] = {}
    for _, number, sign in count.events:
        there[number] = there.get(number, 0) + sign
    return [count.all[number].size for number, is_there in there.items() if is_there]


# ----------------------------------------------------------------------------------------------------- recomputed
class Summed(nn.Sequential):
    def forward(self, *inputs):
        return super().forward(sum(inputs))


def blocks():
    for name, grad, more in (("", True, 0), (", of an input that needs no gradient", False, 0),
                             (", of a block with two inputs", True, 1)):
        yield f"all recomputed{name}", (False, grad, more)
        yield f"products kept{name}", (True, grad, more)


def recomputing(saving):
    def facts(keep_products, grad, more):
        block = Summed(nn.Linear(16, HIDDEN), nn.SiLU(), nn.Dropout(0.5), nn.Linear(HIDDEN, 16))
        x = torch.randn(8, 16, requires_grad=grad)
        with Products() as products, Count() as count:
            out = saving.recomputed(block, x, *torch.randn(more, 8, 16), keep_products=keep_products)
            kept, before = sum(size == INSIDE for size in live(count)), products.count
            if out.requires_grad:
                out.square().sum().backward()
        grads = [weight.grad for weight in block.parameters()] + [x.grad] * grad
        return {"the output": out, "what is kept of the inside": {0: "nothing", 1: "one product"}.get(kept, "everything"),
                "what the backward pass computes once more": "a product" if products.count > before else "no product",
                "the gradient": torch.cat([one.flatten() for one in grads if one is not None] or [torch.zeros(0)])}

    return facts


# ----------------------------------------------------------------------------------------------------------- loss
def losses():
    yield "256 tokens in 8 chunks", (4, 64, 8, torch.float32, True, True)
    yield "10 tokens in 4 chunks", (2, 5, 4, torch.float32, True, True)
    yield "64 tokens in 4 chunks, of a head in bfloat16", (2, 32, 4, torch.bfloat16, True, True)
    yield "3 tokens in 8 chunks", (1, 3, 8, torch.float32, True, True)
    yield "10 tokens in 4 chunks, of a frozen head, as with LoRA", (2, 5, 4, torch.float32, False, True)
    yield "10 tokens in 4 chunks, of an x that needs no gradient", (2, 5, 4, torch.float32, True, False)


def losing(saving):
    def facts(batch, length, chunks, dtype, learns, grad):
        head = nn.Linear(16, VOCABULARY, bias=False)
        with torch.no_grad():
            head.weight.mul_(8)
        x, targets = torch.randn(batch, length, 16, dtype=dtype, requires_grad=grad), torch.randint(VOCABULARY, (batch, length))
        head = head.to(dtype).requires_grad_(learns)
        count = Count()
        count.last, count.phase = VOCABULARY, "forward"
        with count:
            loss = saving.chunked_loss(x, head, targets, chunks)
            (loss / 2).backward()  # as for one of two batches that accumulate
        now = most = 0
        for _, number, sign in count.events:
            if count.all[number].part:
                now += sign * count.all[number].size
                most = max(most, now)
        rows = most / (4 * VOCABULARY) / -(-batch * length // chunks)  # in chunks of float32
        return {"the format of the loss": str(loss.dtype), "the loss": loss.detach().float(),
                "what is held of the logits": "a few copies of a chunk" if rows < 6 or batch * length < 64 else
                "more than a few copies of a chunk",
                "the gradient of x": x.grad if grad else "none",
                "the gradient of the head": head.weight.grad if learns else "none"}

    return facts


# ----------------------------------------------------------------------------------------------------------- LoRA
def layers():
    yield "12 to 8, rank 2, alpha 4", (12, 8, 2, 4.0, torch.float32, False)
    yield "12 to 8 with a bias, rank 4, alpha 2", (12, 8, 4, 2.0, torch.float32, True)
    yield "12 to 8 in float64, rank 2, alpha 2", (12, 8, 2, 2.0, torch.float64, False)
    yield "12 to 8 on another device (`meta`)", (12, 8, 2, 2.0, torch.float32, False, "meta")


def adapting(saving):
    def facts(inputs, outputs, rank, alpha, dtype, bias, device="cpu"):
        linear = nn.Linear(inputs, outputs, bias=bias, dtype=dtype, device=device)
        x = torch.randn(5, inputs, dtype=dtype, requires_grad=True)
        plain = linear(x.to(device)).detach()
        with torch.random.fork_rng(devices=[]):  # how many numbers the matrices take is their own affair
            layer = saving.LoRA(linear, rank, alpha)
        if device == "meta":  # which has shapes and no numbers
            return {"the devices of the weights": ", ".join(sorted({str(weight.device) for weight in layer.parameters()}))}
        first = layer(x)
        found = {"the output at first": "the layer's" if torch.allclose(first, plain) else "not the layer's",
                 "what learns": ", ".join(f"{name} {list(weight.shape)}" for name, weight in layer.named_parameters()
                                          if weight.requires_grad) or "nothing"}
        if not any(weight.requires_grad for weight in layer.parameters()):
            return found
        first.square().sum().backward()
        found["what has a gradient that is not 0"] = ", ".join(
            name for name, weight in layer.named_parameters() if weight.grad is not None and weight.grad.any()) or "nothing"
        with torch.no_grad():
            found["the rank of down at first"] = int(torch.linalg.matrix_rank(layer.down.weight))
            for name in ("down", "up"):
                weight = getattr(layer, name).weight
                weight.copy_(torch.linspace(-1, 1, weight.numel(), dtype=torch.float64).view_as(weight))
        x.grad = None
        out = layer(x)
        out.square().sum().backward()
        return found | {"the output with other matrices": out.detach(), "the gradient of the input": x.grad,
                        "the output in eval mode": layer.eval()(x).detach()}

    return facts


# --------------------------------------------------------------------------------------------- step in the backward pass
def nets():
    yield "two layers", (1,)
    yield "two layers, three steps", (3,)


def stepping(saving):
    def facts(steps):
        net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
        x, grads = torch.randn(4, 6), []

        class Noted(torch.optim.SGD):
            def step(self, closure=None):
                grads.append(sum(weight.grad is not None for weight in net.parameters()))
                return super().step(closure)

        made = saving.step_in_backward(net.parameters(), lambda some: Noted(some, lr=0.1, momentum=0.9))
        for _ in range(steps):
            net(x).square().mean().backward()
        left = sum(weight.grad is not None for weight in net.parameters())
        return {"the number of updates": f"{len(grads)}, for {steps} x 4 parameters",
                "the largest number of gradients at one time": max(grads, default=0),
                "the number of gradients that are left": left,
                "the number of optimizers": len(made) if made is not None else "none returned",
                "the weights": torch.cat([weight.detach().flatten() for weight in net.parameters()])}

    return facts
