"""ddp_advanced: N batches for one update, heads without gradients, and processes with fewer batches than others."""

import re

from dlojz.labs.checking import expect
from dlojz.labs.probe import lost_another
from dlojz.labs.ranks import ended_together

COMMON = "--device cpu --lr 0.1"
HEADS = "--device cpu --batches {} --heads 3 --batch-size 8"
HEAD = 2  # parameters of a head
MANY = {2: "two", 3: "three"}
BATCHES = (8, 6, 4)  # of three processes with --uneven: rank 0 has most, so that what it has is no number for all
FEWEST = BATCHES[-1]
COUNTED = {"updates": True, "no_batch_norm": True}  # batch norm sees one batch at a time, and would make each grouping differ


def check(probe):
    once = probe.run(f"{COMMON} --batch-size 16 --test-steps 1", replicas=True, **COUNTED)
    undivided(once)
    # Epochs of 16 images. One process: an epoch of 8 batches in groups of 3, 3 and 2, and one of 5, which --test-steps cuts off
    # there. Against each batch by itself: with a learning rate of 0 the weights stay, so a group has the mean of its gradients.
    grouped = probe.run("--device cpu --lr 0 --batch-size 2 --accumulate 3 --test-steps 13", **COUNTED)
    single = probe.run("--device cpu --lr 0 --batch-size 2 --test-steps 13", **COUNTED)
    updates_at(grouped, [3, 6, 8, 11, 13], "8 batches in the first epoch, 5 in the second")
    mean_gradients(grouped, single, images=2)
    # Two processes: 4 batches of 2 each, all of them one group, against one batch of 16.
    two = probe.run(f"{COMMON} --batch-size 2 --accumulate 4", ranks=2, **COUNTED)
    same_batches_sent(two)
    ended_together(two)
    alike(two, "ddp_advanced.no_sync")
    sent_at(two, [4])
    same_gradients(two, once, [16])
    probe.verified.append("--accumulate N gives the gradient of all images of a group at once, also in a smaller last group")
    probe.verified.append("two processes send gradients in the last batch of a group only, and then have the same weights")

    heads = probe.run(HEADS.format(5), script="heads.py", small=False, ranks=2, updates=True)
    for rank, facts in enumerate(heads.ranks):
        said = facts.ended.message
        expect(not re.search("finished reduction|graph has changed", said),
               saw=f"`{heads.command}`: rank {rank} {_first_sentence(said)}",
               expected="a head that has no part in a step is no error, whichever it is: DDP looks for what a step does not use",
               look="ddp_advanced.unused")
    ended_together(heads)
    averaged(heads, "ddp_advanced.unused")
    trains_every_head(heads)
    alike(heads, "ddp_advanced.unused")
    probe.verified.append("heads without a gradient in a step are no error, and two processes train the same weights")

    uneven = probe.run(f"{HEADS.format(FEWEST)} --uneven", script="heads.py", small=False, ranks=3, updates=True)
    all_end(uneven)
    averaged(uneven, "ddp_advanced.uneven")
    alike(uneven, "ddp_advanced.uneven")
    alone = probe.run(f"{HEADS.format(FEWEST)} --uneven", script="heads.py", small=False, updates=True)
    alone.need("left")
    probe.verified.append(f"three processes with {listed(BATCHES)} batches end with the same weights; one alone trains as before")
    probe.unverified.append("NCCL, where a process that waits shows no error: that takes two GPUs")


def undivided(run):
    """Without --accumulate a batch is a group of its own. The other gradients are held against such ones."""
    update = run.need("replica")
    given, own = update.gradient, update.alone
    known = given is not None and own
    expect(known and abs(given / own - 1) < 1e-3,
           saw=f"`{run.command}`: without --accumulate the optimizer is given "
               + (f"{given / own:.3g} times the gradient of the batch" if known else "another gradient than that of the batch"),
           expected="the gradient of the batch: a group of one",
           look="ddp_advanced.group")


def updates_at(run, steps, epochs):
    run.need("applied")
    found = [update.step for update in run.all("applied")]
    expect(found == steps,
           saw=f"`{run.command}`, {epochs}: the optimizer steps after the batches {listed(found)}",
           expected=f"it steps after the batches {listed(steps)}: every third batch of an epoch, and its last one",
           look="ddp_advanced.group")


def mean_gradients(run, single, images):
    """Each update has the mean of the gradients of its batches. Of a fingerprint's two numbers, the second adds up."""
    alone, first = single.all("applied"), 0
    for update in run.all("applied"):
        each = [one.gradient for one in alone[first:update.step]]
        mean, first = sum(gradient[1] for gradient in each) / len(each), update.step
        ratio = update.gradient[1] / mean
        simple = abs(6 * ratio - round(6 * ratio)) < 0.01  # all batches of a group divided by another number, the same for all
        expect(abs(update.gradient[1] - mean) <= 1e-3 * max(gradient[0] for gradient in each),
               saw=f"`{run.command}`: the gradient of update {update.number} is "
                   + (f"{ratio:.3g} times that of its {len(each) * images} images" if simple else
                      f"not that of its {len(each)} batches of {images} images, each counted the same"),
               expected=f"the gradient of {len(each) * images} images in one batch: the mean over all of them",
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


def same_batches_sent(run):
    """Both ranks send in the same batches, or one waits. A process that sums its metrics is past its backward pass."""
    sent = [{fact.step for fact in facts.all("collective", kind="all_reduce", inside="backward")} for facts in run.ranks]
    odd = min(sent[0] ^ sent[1], default=0)
    one = int(odd in sent[1])
    beyond = any(fact.step >= odd for fact in run.ranks[1 - one].all("collective", inside="other"))
    expect(not odd or not beyond,
           saw=f"`{run.command}`: in the backward pass of batch {odd}, rank {one} sends gradients and rank {1 - one} does not",
           expected="all processes send in the same batches, the last of each group: what one sends, all the others wait for",
           look="ddp_advanced.no_sync")


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
    first, *others = (facts.need("left").weights for facts in run.ranks)
    for other in others:
        expect(near(first, other),
               saw=f"`{run.command}`: at the end the {MANY[len(run.ranks)]} processes have different weights",
               expected="they have the same: gradients are averaged over the processes",
               look=fence)


def averaged(run, fence):
    """The optimizers of all ranks get the same gradients, as long as all train."""
    for one, *others in zip(*(facts.all("applied") for facts in run.ranks)):
        expect(all(near(one.gradient, other.gradient) for other in others),
               saw=f"`{run.command}`, step {one.number}: the {MANY[len(run.ranks)]} processes step with different gradients",
               expected="each steps with the mean over the processes, in the trunk and in the head that the step has used",
               look=fence)


def trains_every_head(run):
    """The head that a step uses gets a gradient, whichever it is: two of three heads are without, at most."""
    for update in run.all("applied"):
        expect(update.without <= 2 * HEAD,
               saw=f"`{run.command}`, step {update.number}: {update.without} parameters have no gradient",
               expected=f"the trunk and the head that the step has used get one, whichever head it is: {2 * HEAD} at most are "
                        "without",
               look="ddp_advanced.unused")


def all_end(run):
    """With uneven batches nobody waits for ever, and nobody trains the same batch twice to fill up."""
    steps = [len(facts.all("applied")) for facts in run.ranks]
    took = ", ".join(f"rank {rank} has {had} batches and took {count} step{'s' * (count != 1)}"
                     for rank, (had, count) in enumerate(zip(BATCHES, steps)))
    for rank, facts in enumerate(run.ranks):
        ended = facts.ended
        expect("exhausted inputs" not in ended.message,
               saw=f"`{run.command}`: when one process has no batches left, rank {rank} stops with an error that Join raises",
               expected="all processes go on to their last batch and end without one: no `throw_on_early_termination`",
               look="ddp_advanced.uneven")
        in_vain = ended.how in ("time", "alone", "signal") or lost_another(ended)
        expect(not in_vain,
               saw=f"`{run.command}`: {took}; then rank {rank} {_first_sentence(ended.message)}",
               expected="all processes end: what one sends, all the others receive",
               look="ddp_advanced.uneven")
    ended_together(run)
    expect(all(count <= had for count, had in zip(steps, BATCHES)),
           saw=f"`{run.command}`: {took}",
           expected="no batch is trained on twice",
           look="ddp_advanced.uneven")
    expect(min(steps) >= FEWEST,
           saw=f"`{run.command}`: {took}",
           expected=f"each takes at least {FEWEST} steps: so many batches all of them have",
           look="ddp_advanced.uneven")


def _first_sentence(message):
    return re.split(r"(?<=[a-z])\. ", message, maxsplit=1)[0][:300]


def near(one, other):
    return all(abs(a - b) <= 1e-3 * max(one[0], other[0]) for a, b in zip(one, other))


def listed(numbers):
    *first, last = map(str, numbers) if numbers else ["none"]
    return f"{', '.join(first)} and {last}" if first else last
