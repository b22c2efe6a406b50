# >>> compile
# TODO: with --compile, `model` is a compiled one, in the mode args.compile; with --compile-blocks too, each block of `net` is.
if args.compile:
    todo("compile")
# <<< compile

# >>> compile.counts
# TODO: a backend gets each graph that torch.compile finds, and returns what is to be called in its place. Let yours count.
todo("compile")
return [0 for _ in calls]
# <<< compile.counts

# >>> compile.gate
# TODO: change it so that torch finds one graph, and the results stay the same.
class Gate(nn.Module):
    """Numbers whose mean is above 1 are halved, all of them; else they stay. Floats of any shape."""

    def forward(self, x):
        if x.mean().item() > 1:
            x = x / 2
        return x
# <<< compile.gate

# >>> compile.peak
# TODO: change it so that torch finds one graph, and the results stay the same.
class Peak(nn.Module):
    """``relu(x)``. ``peak``: the largest number of all its outputs so far, 0 at first, for `float(module.peak)`."""

    def __init__(self):
        super().__init__()
        self.peak = 0.0

    def forward(self, x):
        y = torch.relu(x)
        self.peak = max(self.peak, y.max().item())
        return y
# <<< compile.peak

# >>> compile.mask
# TODO: change it so that torch finds one graph, and the results stay the same.
class MaskedMean(nn.Module):
    """The mean of the valid tokens of each text.

    ``x`` (texts, tokens, width) and ``valid`` (texts, tokens), bool, give (texts, width). Each text has a valid token. What is in
    the other places, NaN included, makes no difference.
    """

    def forward(self, x, valid):
        return torch.stack([tokens[kept].mean(0) for tokens, kept in zip(x, valid)])
# <<< compile.mask

# >>> compile.warm
# TODO: change it so that torch finds one graph, and the results stay the same.
class WarmUp(nn.Module):
    """``x`` times a factor that grows with each call: 1/steps in the first, 2/steps in the second, …, and 1 from then on."""

    def __init__(self, steps=10):
        super().__init__()
        self.steps, self.calls = steps, 0

    def forward(self, x):
        self.calls += 1
        return x * min(1.0, self.calls / self.steps)
# <<< compile.warm
