"""Count what torch.compile makes of a function, without any compiler, and mend four small modules.

    python compiling.py     for each module: how many graphs each of its calls has made, and why torch breaks or makes them anew

For one graph in all, a line says 1, 0, 0, 0.
"""

import torch
from torch import nn

from dlojz import todo  # noqa: F401


# ----------------------------------------------------------------------------------------------------------------- counting
def counts(function, calls, **options) -> list[int]:
    """For each call, how many new graphs torch.compile has asked its backend to compile.

    ``function``: a function or a module. ``calls``: a list of tuples, the arguments of each call, made one after the other.
    ``options``: for `torch.compile`, such as ``dynamic=True``. The first number is that of the graph breaks plus one; a later
    number is 0, unless what was compiled did not fit the call. No graph is compiled: each runs as it is. What was counted before
    makes no difference. An exception of the function, or of torch with ``fullgraph=True``, is passed on.
    """
    # >>> compile.counts: a backend that keeps the graphs and compiles nothing
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend, **options)
    found = []
    for arguments in calls:
        before = len(graphs)
        compiled(*arguments)
        found.append(len(graphs) - before)
    return found
    # <<< compile.counts


# ----------------------------------------------------------------------------------------------- four modules, one graph each
# >>> compile.gate: a branch on a value
class Gate(nn.Module):
    """Numbers whose mean is above 1 are halved, all of them; else they stay. Floats of any shape."""

    def forward(self, x):
        return torch.where(x.mean() > 1, x / 2, x)
# <<< compile.gate


# >>> compile.peak: a number that is kept for later
class Peak(nn.Module):
    """``relu(x)``. ``peak``: the largest number of all its outputs so far, 0 at first, for `float(module.peak)`."""

    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x):
        y = torch.relu(x)
        self.peak.copy_(torch.maximum(self.peak, y.detach().max()))
        return y
# <<< compile.peak


# >>> compile.mask: as many rows as a mask has
class MaskedMean(nn.Module):
    """The mean of the valid tokens of each text.

    ``x`` (texts, tokens, width) and ``valid`` (texts, tokens), bool, give (texts, width). Each text has a valid token. What is in
    the other places, NaN included, makes no difference.
    """

    def forward(self, x, valid):
        kept = torch.where(valid.unsqueeze(2), x, 0)
        return kept.sum(1) / valid.sum(1, keepdim=True)
# <<< compile.mask


# >>> compile.warm: an attribute that changes in each call
class WarmUp(nn.Module):
    """``x`` times a factor that grows with each call: 1/steps in the first, 2/steps in the second, …, and 1 from then on."""

    def __init__(self, steps=10):
        super().__init__()
        self.steps = steps
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * (self.calls / self.steps).clamp(max=1)
# <<< compile.warm


def examples():
    """By name: a new module, and four calls of one shape."""
    torch.manual_seed(0)
    batches = [(scale * torch.rand(8, 16),) for scale in (1, 5, 1, 5)]
    texts = [(torch.randn(4, 6, 16), torch.arange(6) < torch.randint(1, 7, (4, 1))) for _ in range(4)]
    return {"Gate": (Gate(), batches), "Peak": (Peak(), batches), "MaskedMean": (MaskedMean(), texts),
            "WarmUp": (WarmUp(), batches)}


if __name__ == "__main__":
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    for name, (module, calls) in examples().items():
        print(name, *counts(module, calls))
