"""What the check calls of compiling.py, and what it finds out about it: with a counting backend of its own."""

import torch
from torch import nn

CALLS = 4


# ----------------------------------------------------------------------------------------------------------------- counting
def counting(module):
    """The numbers of `counts` as one text: a message shows all of them."""

    def counted(function, calls, options=None):
        return {"what it returns": numbers(module.counts(function, calls, **(options or {})))}

    return counted


def numbers(found) -> str:
    return ", ".join(map(str, found)) if isinstance(found, (list, tuple)) else repr(found)


def functions():
    ones, fives = (torch.ones(4),), (5 * torch.ones(4),)

    def straight(x):
        return (x + 1).relu()

    def broken(x):
        return x * 2 if x.sum().item() > 8 else x + 1

    def by_number(x, number):
        return x * number

    yield "a function without a break, called 3 times", (straight, [ones] * 3)
    yield "a branch on a value, then the other way", (broken, [ones, ones, fives])
    yield "images of 3 sizes", (straight, [(torch.ones(size),) for size in (4, 6, 8)])
    yield "images of 3 sizes, with dynamic=True", (straight, [(torch.ones(size),) for size in (4, 6, 8)], {"dynamic": True})
    yield "a module", (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [ones] * 2)
    dtypes = torch.float32, torch.float64, torch.float16
    yield "three dtypes", (by_number, [(torch.ones(2, dtype=dtype), 3.0) for dtype in dtypes])


# --------------------------------------------------------------------------------------------------------------- the modules
def gate(module):
    return judged(module.Gate)


def peak(module):
    return judged(module.Peak, lambda net: float(net.peak))


def masked_mean(module):
    return judged(module.MaskedMean)


def warm_up(module):
    return judged(lambda: module.WarmUp(steps=3))


def judged(make, kept=None):
    """Facts of a module: what it gives as it is, then with a backend that compiles nothing, and what torch said."""

    def facts(*calls):
        net = make()
        outputs, slopes = run(net, net, calls)
        found = {"the output": outputs, "the gradient": slopes}
        if kept:
            found["what it keeps"] = kept(net)
        graphs, per_call = [], []

        def backend(graph, inputs):
            graphs.append(graph)
            return graph.forward

        torch.compiler.reset()
        net = make()
        outputs, _ = run(net, torch.compile(net, backend=backend), calls, lambda: per_call.append(len(graphs)))
        found["new graphs per call"] = numbers([after - before for before, after in zip([0, *per_call], per_call)])
        found["the result with fullgraph=True"] = whole(make(), calls)
        found["the output, compiled"] = outputs
        if kept:
            found["what it keeps, compiled"] = kept(net)
        return found

    return facts


def run(net, called, calls, after=lambda: None):
    """The outputs of all calls, and the gradients of their first argument."""
    outputs, slopes = [], []
    for first, *rest in calls:
        first = first.clone().requires_grad_()
        output = called(first, *rest)
        slopes += torch.autograd.grad((output * torch.arange(output.numel()).reshape(output.shape)).sum(), first)
        outputs.append(output.detach())
        after()
    return torch.stack(outputs), torch.stack(slopes)


def whole(net, calls) -> str:
    torch.compiler.reset()
    try:
        run(net, torch.compile(net, backend="eager", fullgraph=True), calls)
    except Exception as error:
        return f"an error: {next((line for line in str(error).strip().splitlines() if line), type(error).__name__)}"
    return "one graph"


def batches():
    yield f"{CALLS} calls, with small numbers and large ones", tuple((scale * torch.rand(3, 8),) for scale in (0.5, 9, 1, 4))


def texts():
    for name, other in (("4 calls", 0.0), ("4 calls, with NaN where nothing is valid", float("nan"))):
        given = []
        for _ in range(CALLS):
            valid = torch.arange(6) < torch.randint(1, 7, (3, 1))
            given.append((torch.where(valid.unsqueeze(2), torch.randn(3, 6, 8), other), valid))
        yield name, tuple(given)
