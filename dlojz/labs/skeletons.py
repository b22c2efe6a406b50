"""The files with which a new lab begins: `dlojz.labs.author` fills them in. What is still to be written says TODO.

A function lab and a script lab begin with an exercise that works, so that each file shows its form; the author puts another in
its place. ``$id``, ``$title`` … are filled in.
"""

from __future__ import annotations

LAB = '''id = "$id"
title = $title
day = $day
order = $order
difficulty = 2  # 1 to 5
importance = 3  # 1 to 5
minutes = 30
needs = []
serves = ["the most images per second"]
$files

# What its run should reach, as a multiple of what another run of the same trainee measured; remove it where there is none.
# [goal]
# run = "$id"
# against = "gpu"
# at_least = { laptop = 1.1, gpu = 1.2, cluster = 1.2 }
'''

FUNCTION_LAB = LAB.split("\n# What its run")[0] + '''
[prediction]
question = "TODO: how many microseconds does it take for …?"
measure = "none"
unit = "us"
'''

HINTS = """# Hints for the lab $id

## 1: where to look
TODO: a question to think about, and the words to look up.

## 2: what the calls do
TODO: the calls, and what belongs in which fence.

## 3: nearly the answer
TODO: the code without its decisive part.
"""

QUIZ = "\n".join(f'''[[question]]
id = "{name}"
kind = "one"
text = "TODO: {what}?"
options = ["the right one", "a wrong one"]
answer = "the right one"
why = ["Why the wrong one is wrong."]
explanation = "Why."
''' for name, what in (("first", "a question for the waiting time"), ("second", "about a cost"), ("third", "about a mistake")))

# --- fences that stand in the reference already -----------------------------------------------------------------------------

CHECK = '''"""$id: TODO: what must hold, in one sentence."""


def check(probe):
    both = probe.beside($run)  # TODO: the switches that ask for this technique
    both.same("model.inputs", look="$fence", saw="the model is given {mine}", expected="it is given {kits}",
              claim="TODO: what is so where nothing differs")
'''

ANSWERS = """# right: TODO: written in a different way
$kits

# wrong: TODO: a mistake that people make · expect: TODO: what the message of the check says
# >>> $fence
pass
# <<< $fence
"""

# --- a function -----------------------------------------------------------------------------------------------------------

FUNCTION = '''"""TODO: what this file is for. Until then, an example: rows between -1 and 1."""

import torch

from dlojz import todo  # noqa: F401


def $id(x):
    """Each row of ``x`` divided by the largest absolute value in it; a row of zeros stays one.

    ``x``: float (rows, columns). Returns a new tensor of its shape, dtype and device. TODO: shapes, units, errors, source.
    """
    # >>> $id: from numbers of any size to numbers from -1 to 1
    largest = x.abs().amax(dim=1, keepdim=True)
    return x / torch.where(largest > 0, largest, 1)
    # <<< $id
'''

FUNCTION_STUB = """# >>> $id
# TODO: the largest absolute value of each row, and the row divided by it. As it is, x comes back unchanged.
todo("$id")
return x.clone()
# <<< $id
"""

FUNCTION_CALLS = '''"""What the check of $id calls the function with."""

import torch


def rows():
    """Yields a name, as messages say it, and the arguments; the simplest first."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        yield f"4 rows of 8 numbers, {dtype}", (torch.randn(4, 8, dtype=dtype),)
    yield "one row of one number", (torch.randn(1, 1),)
    yield "3 rows of 7 numbers, a transposed view", (torch.randn(7, 3).T,)
    yield "a row of zeros among others", (torch.randn(5, 6) * torch.tensor([1, 1, 0, 1, 1])[:, None],)
'''

FUNCTION_CHECK = '''"""$id: the function gives what the kit's own gives, for each kind of input."""


def check(probe):
    probe.call_beside("$file", "$id", "rows", look="$fence",
                      words={"value": "each row is divided by its largest absolute value"},
                      claim="`$id` is right for all formats, one number, a transposed view and a row of zeros")
'''

FUNCTION_ANSWERS = """# right: by the norm
# >>> $id
norm = torch.linalg.vector_norm(x, ord=torch.inf, dim=1, keepdim=True)
return x / norm.masked_fill(norm == 0, 1)
# <<< $id

# right: row by row
# >>> $id
rows = [row / row.abs().max() if row.any() else row for row in x]
return torch.stack(rows)
# <<< $id

# wrong: the largest of all · expect: `$id`, 4 rows of 8 numbers, torch.float32: .*Expected: each row is divided by
# >>> $id
return x / x.abs().max()
# <<< $id

# wrong: the largest, not the largest absolute value · expect: 4 rows of 8 numbers, torch.float32: .*each row is divided by
# >>> $id
largest = x.amax(dim=1, keepdim=True)
return x / torch.where(largest > 0, largest, 1)
# <<< $id

# wrong: zeros forgotten · expect: a row of zeros among others: .* is nan
# >>> $id
return x / x.abs().amax(dim=1, keepdim=True)
# <<< $id

# wrong: all in float32 · expect: torch.float64: .* is float32.*it is float64
# >>> $id
largest = x.float().abs().amax(dim=1, keepdim=True)
return x.float() / torch.where(largest > 0, largest, 1)
# <<< $id
"""

# --- a script of its own -----------------------------------------------------------------------------------------------------

SCRIPT = '''"""TODO: what this script trains. Until then, an example: momentum by hand.

    python $id.py --steps 20
"""

import argparse

import torch
from torch import nn

from dlojz import todo  # noqa: F401


def arguments():
    parser = argparse.ArgumentParser(description="Train a small model.")
    parser.add_argument("--steps", type=int, default=20, help="how many batches (20)")
    parser.add_argument("--momentum", type=float, default=0.9, help="the part of its velocity that a parameter keeps (0.9)")
    return parser.parse_args()


def main(args):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    velocities = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for step in range(args.steps):
        inputs = torch.randn(32, 8)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        # >>> $id.momentum: the gradient becomes a velocity, which keeps a part of its last value
        for parameter, velocity in zip(model.parameters(), velocities):
            velocity.mul_(args.momentum).add_(parameter.grad)
            parameter.grad.copy_(velocity)
        # <<< $id.momentum
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main(arguments())
'''

SCRIPT_STUB = """# >>> $id.momentum
# TODO: velocity = momentum * velocity + gradient, and the optimizer finds the velocity in place of the gradient.
if args.momentum:
    todo("$id")
# <<< $id.momentum
"""

SCRIPT_CHECK = '''"""$id: the optimizer finds velocities in place of gradients."""


def check(probe):
    for switches in ("--steps 4", "--steps 4 --momentum 0"):
        both = probe.beside(switches, script="$file", small=False)
        both.same("update.gradient", look="$fence", expected="its norm is {kits}",
                  saw="what the optimizer finds is not the velocity: its norm is {size}",
                  claim="what the optimizer finds is the velocity, for any --momentum")
'''

SCRIPT_ANSWERS = """# right: a new gradient
# >>> $id.momentum
for at, parameter in enumerate(model.parameters()):
    velocities[at] = args.momentum * velocities[at] + parameter.grad
    parameter.grad = velocities[at].clone()
# <<< $id.momentum

# right: all at once
# >>> $id.momentum
gradients = [parameter.grad for parameter in model.parameters()]
torch._foreach_mul_(velocities, args.momentum)
torch._foreach_add_(velocities, gradients)
torch._foreach_copy_(gradients, velocities)
# <<< $id.momentum

# wrong: velocities not used · expect: what the optimizer finds is not .*the fence $id.momentum
# >>> $id.momentum
for parameter, velocity in zip(model.parameters(), velocities):
    velocity.mul_(args.momentum).add_(parameter.grad)
# <<< $id.momentum

# wrong: nothing kept · expect: what the optimizer finds is not .*the fence $id.momentum
# >>> $id.momentum
for parameter in model.parameters():
    parameter.grad.mul_(1 + args.momentum)
# <<< $id.momentum

# wrong: gradient damped · expect: what the optimizer finds is not .*the fence $id.momentum
# >>> $id.momentum
for parameter, velocity in zip(model.parameters(), velocities):
    velocity.mul_(args.momentum).add_(parameter.grad, alpha=1 - args.momentum)
    parameter.grad.copy_(velocity)
# <<< $id.momentum

# wrong: momentum of its own · expect: what the optimizer finds is not .*the fence $id.momentum
# >>> $id.momentum
for parameter, velocity in zip(model.parameters(), velocities):
    velocity.mul_(0.5).add_(parameter.grad)
    parameter.grad.copy_(velocity)
# <<< $id.momentum
"""
