"""ddp_advanced: N batches for one update, heads without gradients, and processes with fewer batches than others."""

from dlojz.labs.checking import expect
from dlojz.labs.ranks import ended_together

COMMON = "--device cpu --lr 0.1"
HEADS = "--device cpu --batches 5 --heads 3 --batch-size 8"
COUNTED = {"updates": True, "no_batch_norm": True}  # batch norm sees one batch at a time, and would make each grouping differ


def check(probe):
    # Epochs of 16 images. One process: batches of 4 in groups of 3 and 1, against batches of 12 and 4.
    grouped = probe.run(f"{COMMON} --accumulate 3 --test-steps 8", **COUNTED)
    whole = probe.run(f"{COMMON} --batch-size 12 --test-steps 4", **COUNTED)
    updates_at(grouped, [3, 4, 7, 8])
    same_gradients(grouped, whole, [12, 4, 12, 4])
    # Two processes: 4 batches of 2 each, all of them one group, against one batch of 16.
    two = probe.run(f"{COMMON} --batch-size 2 --accumulate 4", ranks=2, **COUNTED)
    once = probe.run(f"{COMMON} --batch-size 16 --test-steps 1", **COUNTED)
    ended_together(two)
    alike(two, "ddp_advanced.no_sync")
    sent_at(two, [4])
    same_gradients(two, once, [16])
    probe.verified.append("--accumulate N gives the gradient of all images of a group at once, also in a smaller last group")
    probe.verified.append("two processes send gradients in the last batch of a group only, and then have the same weights")

    heads = probe.run(HEADS, script="heads.py", small=False, ranks=2, updates=True)
    ended_together(heads)
    averaged(heads, "ddp_advanced.unused")
    alike(heads, "ddp_advanced.unused")
    probe.verified.append("heads without a gradient in a step are no error, and two processes train the same weights")

    uneven = probe.run(f"{HEADS} --uneven", script="heads.py", small=False, ranks=2, updates=True)
    all_end(uneven)
    averaged(uneven, "ddp_advanced.uneven")
    alike(uneven, "ddp_advanced.uneven")
    alone = probe.run(f"{HEADS} --uneven", script="heads.py", small=False, updates=True)
    alone.need("left")
    probe.verified.append("two processes with 5 and 7 batches end, with the same weights; one process trains as before")
    probe.unverified.append("NCCL, where a process that waits shows no error: that takes two GPUs")


def updates_at(run, steps):
    run.need("applied")
    found = [update.step for update in run.all("applied")]
    expect(found == steps,
           saw=f"`{run.command}`, 4 batches an epoch: the optimizer steps after the batches {listed(found)}",
           expected=f"it steps after the batches {listed(steps)}: each third of an epoch, and the last",
           look="ddp_advanced.group")


def same_gradients(run, whole, images):
    """Each update has the gradient of its images at once."""
    for one, other, count in zip(run.all("applied"), whole.all("applied"), images):
        ratio = one.gradient[0] / other.gradient[0]
        expect(near(one.gradient, other.gradient),
               saw=f"`{run.command}`: the gradient of update {one.number} is "
                   + (f"{ratio:.3g} times that of its {count} images" if abs(ratio - 1) > 0.02 else "not that of its images"),
               expected=f"the gradient of {count} images in one batch: the mean over all of them",
               look="ddp_advanced.group")
    expect(len(run.all("applied")) == len(images) or not run.completed,
           saw=f"`{run.command}`: {len(run.all('applied'))} updates",
           expected=f"{len(images)}",
           look="ddp_advanced.group")


def sent_at(run, steps):
    """Gradients travel in the backward pass of these batches, and of no others."""
    found = sorted({fact.step for fact in run.all("collective", kind="all_reduce", inside="backward")})
    run.need("left")
    late = "none" if not found else listed(found)
    expect(set(found) <= set(steps),
           saw=f"`{run.command}`: gradients are sent in the backward passes of the batches {late}",
           expected=f"they are sent in the last batch of the group only, the {steps[0]}th: until then they are sums on the way",
           look="ddp_advanced.no_sync")
    expect(set(found) == set(steps),
           saw=f"`{run.command}`: gradients are sent in the backward passes of {late} of the batches",
           expected=f"they are sent in the last batch of the group, the {steps[0]}th",
           look="ddp_advanced.no_sync")


def alike(run, fence):
    """All ranks end with the same weights."""
    mine, theirs = (facts.need("left").weights for facts in run.ranks)
    expect(near(mine, theirs),
           saw=f"`{run.command}`: at the end the two processes have different weights",
           expected="they have the same: gradients are averaged over the processes",
           look=fence)


def averaged(run, fence):
    """The optimizers of both ranks get the same gradients, as long as both train."""
    for one, other in zip(run.ranks[0].all("applied"), run.ranks[1].all("applied")):
        expect(near(one.gradient, other.gradient),
               saw=f"`{run.command}`, step {one.number}: the two processes step with different gradients",
               expected="each steps with the mean over the processes, in the trunk and in the head that the step has used",
               look=fence)


def all_end(run):
    """With 5 and 7 batches nobody waits for ever, and nobody trains the same batch twice to fill up."""
    steps = [len(facts.all("applied")) for facts in run.ranks]
    for rank, facts in enumerate(run.ranks):
        ended = facts.ended
        in_vain = ended.how in ("time", "alone", "signal") or LOST in ended.message
        expect(not in_vain,
               saw=f"`{run.command}`: rank 0 has 5 batches and took {steps[0]} steps, rank 1 has 7 and took {steps[1]}; then "
                   f"rank {rank} {ended.message[:160]}",
               expected="all processes end: what one sends, all the others receive",
               look="ddp_advanced.uneven")
    ended_together(run)
    expect(steps[0] <= 5 and steps[1] <= 7,
           saw=f"`{run.command}`: with 5 and 7 batches the processes take {steps[0]} and {steps[1]} steps",
           expected="no batch is trained on twice",
           look="ddp_advanced.uneven")
    expect(min(steps) >= 5,
           saw=f"`{run.command}`: with 5 and 7 batches the processes take {steps[0]} and {steps[1]} steps",
           expected="each takes at least 5 steps: so many batches all of them have",
           look="ddp_advanced.uneven")


LOST = "onnection "  # closed by peer, reset by peer


def near(one, other):
    return all(abs(a - b) <= 1e-3 * max(one[0], other[0]) for a, b in zip(one, other))


def listed(numbers):
    *first, last = map(str, numbers) if numbers else ["none"]
    return f"{', '.join(first)} and {last}" if first else last
