"""parallelism: each way of splitting computes what one process computes, and sends what it should; schedules; a choice."""

import math

from dlojz.labs.checking import expect

LOSS, GRADIENT = 1e-6, 1e-5  # of the largest number
FILE = "parallelism.py"


def check(probe):
    def beside(function, inputs, words, claim, **more):
        probe.call_beside(FILE, function, inputs, look=f"parallelism.{function}", claim=claim,
                          words={"value": words} if isinstance(words, str) else words, **more)

    beside("fit", "messages", "the least sum of squares of (latency + size / bandwidth) / time - 1: {kits}",
           "`fit` finds latency and bandwidth, also where times scatter", gives=("latency", "bandwidth"), tolerance=1e-6)
    runs = [(probe.call(FILE, "tensor", "`TensorMLP` with 2 processes", ranks=2), by_tensor),
            (probe.call(FILE, "ring", "`ring_attention` with 3 processes", ranks=3), by_context),
            (probe.call(FILE, "two", "`two_dimensions` with 4 processes", ranks=4), by_two)]
    for run, judge in runs:
        judge(run)
        for rank in run.ranks:
            rank.finish()
    beside("one_f_one_b", "places", "{kits}: one forward for each device behind it, then a forward and a backward in turn, then "
           "what is left", "1F1B on every device, also with few microbatches", by="listed")
    beside("simulate", "orders", {
        "value": "{kits}: an action begins when its device is free and all that it needs has ended",
        "the end": "{kits}: no device can ever go on"},
        "`simulate` for whole and cut backward passes, several stages per device, and devices that all wait", by="said")
    beside("bubble", "pipelines", "idle time / (idle time + work), as the docstring has them: {kits}",
           "the bubble of four schedules")
    beside("choose", "cases", "the first way in the docstring's list that fits: {kits}", "`choose` in twelve cases")
    probe.verified += [
        "an MLP in two processes: one all-reduce forward, one backward; results and gradients of one process",
        "ring attention in three processes, causal or not: results and gradients of one process, and nobody holds all keys",
        "FSDP x tensor parallel in four processes: each has a quarter, loss and gradients are those of one process"]
    probe.unverified.append("NCCL, and what any of it costs on GPUs: that takes several")


def by_tensor(run):
    for number, rank in enumerate(run.ranks):
        own, both = "what it was given", "the sum over both"
        for name, forward, backward, there, back in (("Copied", 1 + number, 30, own, both),
                                                     ("Summed", 3, 10 * (1 + number), both, own)):
            who = f"`{name}` of 1 on rank 0 and 2 on rank 1, with the gradients 10 and 20: rank {number}"
            one = rank.need("sum", name=name)
            expect(one.kept, saw=f"{who}: x itself has changed", expected="a new tensor", look="parallelism.sums")
            expect(one.forward == forward, saw=f"{who} gets {one.forward:g}", expected=f"{forward}, {there}",
                   look="parallelism.sums")
            expect(one.backward == backward, saw=f"{who} gets the gradient {one.backward:g}", expected=f"{backward}, {back}",
                   look="parallelism.sums")
        who = f"rank {number} of 2, width 6, hidden 12"
        parts, right = rank.need("parts"), {"up": [6, 6], "up_bias": [6], "down": [6, 6], "bias": [6]}
        for name in right:
            shape = parts.shapes.get(name)
            expect(shape == right[name], saw=f"{who}: {f'`{name}` has the shape {shape}' if shape else f'there is no `{name}`'}",
                   expected=f"{right[name]}: half of the hidden numbers, and everything that belongs to them",
                   look="parallelism.split")
            expect(name not in parts.others, saw=f"{who}: `{name}` has the right shape, but wrong values",
                   expected="all of `down.bias`, unchanged" if name == "bias" else f"part {number} of 2, as `chunk` cuts it",
                   look="parallelism.split")
        one = rank.need("forward")
        expect(not one.bias_again, saw=f"{who}: the result is the right one, plus the last bias once more",
               expected="each process adds something to the sum; a bias must come once", look="parallelism.forward")
        near(one.apart, LOSS, f"{who}: the result", "as in one process: all processes' parts of the hidden numbers, summed",
             "parallelism.forward")
        counted(one.sums, f"{who}: forward", "as large as the result", "parallelism.forward")
        back = rank.need("backward")
        expect(back.kept, saw=f"{who}: when its parameters change, so do the layers that `TensorMLP` was given",
               expected="they stay as they are: parameters are copies (`clone`)", look="parallelism.split")
        near(back.inputs, GRADIENT, f"{who}: the gradient of x", "the sum of what all processes' parts say of x",
             "parallelism.forward")
        counted(back.sums, f"{who}: backward", "as large as x", "parallelism.forward")
        for name, off in back.parts.items():
            near(off, GRADIENT, f"{who}: the gradient of `{name}`", "as in one process: each process adds the bias, after the sum"
                 if name == "bias" else f"part {number} of 2 of what one process has", "parallelism.forward")


def near(off, limit, what, right, look):
    """``off``: as `apart` of calls.py has it."""
    words = "is nan" if math.isnan(off) else "is missing, or has another shape" if math.isinf(off) else (
        f"differs by {off:.2g} of its largest number")
    expect(off < limit, saw=f"{what} {words}", expected=right, look=look)


def counted(sums, said, like, look):
    right, others = sums
    expect(right == 1 and not others, saw=f"{said}, {right} all-reduces {like} and {others} other collectives",
           expected="one all-reduce, and nothing else", look=look)


def by_context(run):
    look = "parallelism.ring"
    for causal in (False, True):
        for number, rank in enumerate(run.ranks):
            one = rank.need("ring", causal=causal)
            who = f"`ring_attention(…, causal={causal})`, rank {number} of 3"
            expect(one.finite, saw=f"{who}: the result has numbers that are nan or infinite",
                   expected="a part that is masked as a whole adds 0", look=look)
            expect(one.alone is False or one.apart < LOSS, saw=f"{who}: attention over its own 4 tokens only",
                   expected="over all 12", look=look)
            tokens = "all tokens up to its own" if causal else "all tokens"
            near(one.apart, LOSS, f"{who}: the result", f"rows of softmax over {tokens}", look)
            expect(not one.gathered, saw=f"{who}: {one.gathered} collectives that give it the keys and values of all",
                   expected="`Passed`, part by part: memory for two parts is all that it needs", look=look)
            expect(one.sent == 2 * one.part, saw=f"{who} sends {one.sent:,} bytes", look=look,
                   expected=f"{2 * one.part:,}: keys and values of one part, in two turns; after the last turn nobody needs them")
        for number, rank in enumerate(run.ranks):
            who = f"`ring_attention(…, causal={causal})`, rank {number} of 3"
            for name, off in rank.need("back", causal=causal).parts.items():
                near(off, GRADIENT, f"{who}: the gradient of {name}", "as in one process: autograd goes back through `Passed`, "
                     "if each part has taken part in the result, and no row of scores is -inf as a whole", look)


def by_two(run):
    look, said = "parallelism.two", '`two_dimensions(net, "cpu", 2, plan)` with 4 processes'
    mesh, held, one = run.need("mesh"), run.need("held"), run.need("trained")
    expect(mesh.ranks == [[0, 1], [2, 3]], saw=f"{said}: the mesh is {mesh.ranks}",
           expected="[[0, 1], [2, 3]]: neighbours share a layer, they are in one node", look=look)
    expect(mesh.names == ["shard", "tensor"], saw=f"{said}: its dimensions are {' and '.join(mesh.names) or 'without names'}",
           expected="shard and tensor", look=look)
    expect(held.fraction == 0.25, saw=f"{said}: a process holds {held.fraction:.0%} of `blocks.0.up.weight`",
           expected="25 %: half of its rows by the plan, and of these half by `fully_shard`", look=look)
    expect(held.first == 0.5, saw=f"{said}: a process holds {held.first:.0%} of `first.weight`, which is in no block and no plan",
           expected="50 %: `fully_shard` of the whole net takes what is left", look=look)
    expect(held.units == ["the root", "blocks.0", "blocks.1"], saw=f"{said}: `fully_shard` has got {', '.join(held.units)}",
           expected="blocks.0, blocks.1, and then the root, so that one block at a time is gathered", look=look)
    expect(abs(one.loss - one.right) < LOSS * one.right, saw=f"{said}: the mean loss is {one.loss:.6g}",
           expected=f"{one.right:.6g}, as in one process", look=look)
    for name, off in one.parts.items():
        near(off, GRADIENT, f"{said}: the gradient of `{name}`", "the mean over all rows, as in one process", look)
