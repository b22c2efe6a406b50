"""parallelism: each way of splitting computes what one process computes, and sends what it should; schedules; a choice."""

from dlojz.labs.checking import expect

LOSS, GRADIENT = 1e-6, 1e-5  # of the largest number
FILE = "parallelism.py"


def check(probe):
    def beside(function, inputs, words, claim, **more):
        probe.call_beside(FILE, function, inputs, look=f"parallelism.{function}", words={"value": words}, claim=claim, **more)

    beside("fit", "messages", "the least sum of squares of (latency + size / bandwidth) / time - 1: {kits}",
           "`fit` finds latency and bandwidth, also where times scatter", gives=("latency", "bandwidth"), tolerance=1e-6)
    runs = [(probe.call(FILE, "tensor", "`TensorMLP` with 2 processes", ranks=2), by_tensor),
            (probe.call(FILE, "ring", "`ring_attention` with 3 processes", ranks=3), by_context),
            (probe.call(FILE, "two", "`two_dimensions` with 4 processes", ranks=4), by_two)]
    for run, judge in runs:
        judge(run)
        for rank in run.ranks:
            rank.finish()
    beside("one_f_one_b", "places", "one forward for each device behind it, then a forward and a backward in turn, then what is "
           "left: {kits}", "1F1B on every device, also with few microbatches")
    beside("simulate", "orders", "each action begins when its device is free and all that it needs has ended: {kits}",
           "`simulate` for whole and cut backward passes, and for several stages per device", by="said")
    said = probe.call(FILE, "stuck", "`simulate` of devices that wait for each other")
    expect(said.need("stuck").raised, saw="`simulate` of two devices that wait for each other returns",
           expected="ValueError: no action can ever begin", look="parallelism.simulate")
    said.finish()
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
        for name, forward, backward in (("Copied", 1 + number, 30), ("Summed", 3, 10 * (1 + number))):
            who = f"`{name}` of 1 on rank 0 and 2 on rank 1, with the gradients 10 and 20: rank {number}"
            one = rank.need("sum", name=name)
            expect(one.kept, saw=f"{who}: x itself has changed", expected="a new tensor", look="parallelism.sums")
            expect(one.forward == forward, saw=f"{who} gets {one.forward:g}", expected=f"{forward}", look="parallelism.sums")
            expect(one.backward == backward, saw=f"{who} gets the gradient {one.backward:g}", expected=f"{backward}",
                   look="parallelism.sums")
        who = f"rank {number} of 2, width 6, hidden 12"
        shapes, right = rank.need("parts").shapes, {"up": [6, 6], "up_bias": [6], "down": [6, 6], "bias": [6]}
        for name in right:
            expect(shapes.get(name) == right[name], saw=f"{who}: `{name}` has the shape {shapes.get(name, 'of nothing')}",
                   expected=f"{right[name]}: half of the hidden numbers, and everything that belongs to them",
                   look="parallelism.split")
        one = rank.need("forward")
        expect(not one.bias_again, saw=f"{who}: the result is the right one, plus the last bias once more",
               expected="each process adds something to the sum; a bias must come once", look="parallelism.forward")
        expect(one.apart < LOSS, saw=f"{who}: the result differs from one process's by {one.apart:.2g} of its largest number",
               expected="the same: all processes' parts of the hidden numbers, summed", look="parallelism.forward")
        counted(one.sums, f"{who}: forward", "as large as the result", "parallelism.forward")
        back = rank.need("backward")
        expect(back.kept, saw=f"{who}: the layers that `TensorMLP` was given have changed", expected="they stay as they are",
               look="parallelism.split")
        expect(back.inputs < GRADIENT, saw=f"{who}: the gradient of x differs by {back.inputs:.2g} of its largest number",
               expected="the sum of what all processes' parts say of x", look="parallelism.forward")
        counted(back.sums, f"{who}: backward", "as large as x", "parallelism.forward")
        for name, off in back.parts.items():
            expect(off < GRADIENT, saw=f"{who}: the gradient of `{name}` differs by {off:.2g} of its largest number",
                   expected=f"this process's part, number {number}, of what one process has", look="parallelism.split")


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
            expect(one.apart < LOSS, saw=f"{who}: the result differs by {one.apart:.2g} of its largest number",
                   expected="rows of softmax over all tokens" + (" up to its own" if causal else ""), look=look)
            expect(not one.gathered, saw=f"{who}: {one.gathered} collectives that give it the keys and values of all",
                   expected="`Passed`, part by part: memory for two parts is all that it needs", look=look)
            expect(one.sent == 2 * one.part, saw=f"{who} sends {one.sent:,} bytes", look=look,
                   expected=f"{2 * one.part:,}: keys and values of one part, in two turns; after the last turn nobody needs them")
            for name, off in rank.need("back", causal=causal).parts.items():
                expect(off < GRADIENT, saw=f"{who}: the gradient of {name} differs by {off:.2g} of its largest number",
                       expected="as in one process: autograd goes back through `Passed`, if each part has taken part in the "
                       "result", look=look)


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
    expect(held.units == ["the root", "blocks.0", "blocks.1"], saw=f"{said}: gathered by themselves are {', '.join(held.units)}",
           expected="each block, and the root", look=look)
    expect(abs(one.loss - one.right) < LOSS * one.right, saw=f"{said}: the mean loss is {one.loss:.6g}",
           expected=f"{one.right:.6g}, as in one process", look=look)
    for name, off in one.parts.items():
        expect(off < GRADIENT, saw=f"{said}: the gradient of `{name}` differs by {off:.2g} of its largest number",
               expected="the mean over all rows, as in one process", look=look)
