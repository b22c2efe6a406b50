"""ddp_advanced: N batches for one update, heads without gradients, and processes with fewer batches than others."""

import re

from dlojz.labs.checking import claim
from dlojz.labs.probe import lost_another

HEADS = "--device cpu --batches {} --heads 3 --batch-size 8"
HEAD = 2  # parameters of a head
BATCHES = (8, 6, 4)  # of three processes with --uneven: rank 0 has most, so that what it has is no number for all
OWN_WAY = ("collective", "wrap", "layer", "loss", "update", "updated")  # a head may take part with no weight; batches may be cut


def check(probe):
    # Epochs of 16 images. One process has 8 batches in groups of 3, 3 and 2, and then, as --test-steps cuts the second epoch off,
    # 5. Two processes have 4 batches each, all of them one group.
    updates(probe.beside("--device cpu --batch-size 8"))
    updates(probe.beside("--device cpu --batch-size 2 --accumulate 3 --test-steps 13"))
    two = probe.beside("--device cpu --batch-size 2 --accumulate 4", ranks=2, solved=["ddp"])
    updates(two)
    two.same("collective", look="ddp_advanced.no_sync", saw=lambda each: "gradients are sent in the backward passes of batches "
             + listed(sorted({sent.step for sent in each.facts.all("collective", inside="backward")})),
             expected="they are sent in the last batch of a group only, by all processes: until then they are sums on the way",
             claim="two processes send gradients in the last batch of a group only, and then have the same weights")
    heads = probe.beside(HEADS.format(5), script="heads.py", small=False, ranks=2)
    heads.holds(one_model)
    heads.holds(trains_every_head)
    heads.says("heads without a gradient in a step are no error, and two processes train the same weights")
    uneven = probe.beside(f"{HEADS.format(BATCHES[-1])} --uneven", script="heads.py", small=False, ranks=3)
    uneven.holds(all_end)
    uneven.holds(one_model)
    uneven.may_differ("model", "backward", "torch", "ended", "started")
    alone = probe.beside(f"{HEADS.format(BATCHES[-1])} --uneven", script="heads.py", small=False)
    alone.says(f"three processes with {listed(BATCHES)} batches end with the same weights; one alone trains as before")
    for both in (heads, uneven, alone):
        both.same("started.total_steps", look="ddp_advanced.uneven", saw="the training has {mine} batches",
                  expected="{kits}: none is left out where no process would wait")
    for both in (heads, uneven):
        both.may_differ(*OWN_WAY)
    probe.unverified.append("NCCL, where a process that waits shows no error: that takes two GPUs")


def updates(both):
    both.may_differ("backward.times")  # what counts is the gradient in the end
    steps = "the optimizer steps after the batches {}"
    both.same("update.missing", "update.extra", look="ddp_advanced.group",
              saw=lambda each: steps.format(listed([update.step for update in each.facts.all("update")])),
              expected=steps.format(listed([update.step for update in both.kits.all("update")]))
              + ": after every N of an epoch, and after its last one")
    both.same("update.gradient", look="ddp_advanced.group",
              saw="the norm of the gradients is {size}",
              expected="that of all images of the group in one batch: the mean over its batches, however many they are",
              claim="--accumulate N gives the gradient of all images of a group at once, also in a smaller last group")


@claim("the optimizers of all processes get the same gradients, and end with the same weights", look="ddp_advanced.unused")
def one_model(run):
    for step, together in enumerate(zip(*(facts.all("update") for facts in run.ranks)), 1):
        norms = [update.norm for update in together]
        if max(norms) - min(norms) > 1e-3 * max(norms):
            return f"`{run.command}`, step {step}: the processes step with different gradients"
    apart = re.search(r"weights differ by ([\d.e-]+)", " ".join(said.text for said in run.all("print")))
    return apart and float(apart[1]) > 1e-4 and f"`{run.command}`: at the end the weights of the processes differ by {apart[1]}"


@claim(f"the trunk and the head that a step uses get a gradient, whichever head it is: {2 * HEAD} parameters at most are without",
       look="ddp_advanced.unused")
def trains_every_head(run):
    update = next((update for update in run.all("update") if update.without > 2 * HEAD), None)
    return update and f"`{run.command}`, step {update.step}: {update.without} parameters have no gradient"


@claim("all go on to their last batch, or to the last that all have, and end without an error: what one sends, the others "
       "receive; no batch is trained on twice", look="ddp_advanced.uneven", always=True)
def all_end(run):
    steps = [len(facts.all("update")) for facts in run.ranks]
    took = ", ".join(f"rank {rank} has {had} batches and took {count} step{'s' * (count != 1)}"
                     for rank, (had, count) in enumerate(zip(BATCHES, steps)))
    for rank, ended in enumerate(facts.ended for facts in run.ranks):
        if "exhausted inputs" in ended.message:
            return f"`{run.command}`: when one process has no batches left, rank {rank} stops with an error that Join raises"
        if ended.how in ("time", "alone", "signal") or lost_another(ended):
            return f"`{run.command}`: {took}; then rank {rank} {ended.message[:120]}"
    if min(steps) < BATCHES[-1] or any(count > had for count, had in zip(steps, BATCHES)):
        return all(facts.completed for facts in run.ranks) and f"`{run.command}`: {took}"


def listed(numbers):
    *first, last = map(str, numbers) if numbers else ["none"]
    return f"{', '.join(first)} and {last}" if first else last
