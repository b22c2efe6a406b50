"""ddp: several processes train one model: each on its own images, with the same parameters, and what they report is of all."""

from dlojz.labs.checking import claim

IMAGES = 16  # of the probe's
SEED = 7  # not train.py's own
WAYS = ("collective", "wrap.missing", "model.weights", "group.made.backend", "save.extra", "torch.seed")  # hooks, all_gather
DEALT = ("batch.indices", "batch.mark", "model.inputs.mark", "loss.target.mark", "loss.value", "update.gradient", "updated",
         "recorded", "validation.loss")  # what follows from who reads which images in which order


def check(probe):
    # Who reads which images, and whose statistics of batch norm all validate with, is the trainee's to choose. First the kit
    # chooses, so that all numbers can be compared: each process is on a node of its own, 16 images do not go evenly into them,
    # and an epoch has two batches, so that it ends where --metric-every does not.
    alone = probe.beside("--device cpu --test-steps 2")
    model = probe.beside("--device cpu --batch-size 3 --metric-every 3 --checkpoint-every 2", ranks=3, local_ranks=[0, 0, 0],
                         uneven=True, solved=["ddp.sampler", "ddp.epoch", "ddp.buffers"])
    images = probe.beside("--device cpu", ranks=2, local_ranks=[0, 0])
    later = probe.beside("--device cpu --resume", ranks=2, local_ranks=[0, 0], when="resumed after an epoch",
                         resumed_at={"step": 2, "epoch": 1, "position": 0})
    gpus = probe.beside(f"--device cuda --sync-bn --find-unused-parameters --seed {SEED}", ranks=3, gpus=3, local_ranks=[2, 0, 1],
                        solved=["gpu"])
    for both, backend in ((model, "gloo"), (images, "gloo"), (later, "gloo"), (gpus, "nccl"), (alone, "")):
        table(both)
        both.may_differ(*WAYS, *(() if both is model else DEALT))
        both.holds(joined, backend)
        both.holds(reports_once)
    for both in (images, gpus):
        both.holds(split)
        both.holds(reshuffled)
    images.holds(statistics)
    later.holds(as_without_a_stop, images.mine)
    gpus.holds(seeded, images.mine)
    model.says("three processes have the same parameters after each step; loss and accuracy are those of all images")
    images.says("two processes read each their own part of the images, in another order each epoch; rank 0 alone reports")
    later.says("a resumed run reads its images in the order that the epoch would have had without a stop")
    gpus.says("on three simulated GPUs each process has its own; --sync-bn converts batch norm before the wrap; --seed counts")
    alone.says("one process trains as before")
    probe.unverified += ["several nodes: here processes only believe that they are on three",
                         "NCCL, and that more processes are faster: that takes as many GPUs; look at your runs"]


def table(both):
    both.same("group.asked.rank", look="ddp.init", saw="it joins the process group as number {mine}",
              expected="its number among all processes, {kits}: its local rank is its number on one node")
    both.same("wrap.kinds", look="ddp.sync_bn", saw=lambda each: "DistributedDataParallel is given a model with " + (
              "SyncBatchNorm, without --sync-bn" if "SyncBatchNorm" in each.mine else "BatchNorm2d, with --sync-bn"),
              expected="the switch decides, and batch norm is converted before the model is wrapped")
    both.same("wrap.devices", look="ddp.wrap", saw="DistributedDataParallel is given {mine} as its device",
              expected=lambda each: "none: on a CPU the model says where it is" if list(each.kits or ()) in ([], ["cpu"]) else
              f"the GPU of this process, {each.words()['kits']}: its local rank, its number on this node, says which")
    both.same("wrap.find_unused", look="ddp.wrap", saw=lambda each: "DistributedDataParallel " + (
              "looks for unused parameters in each step" if each.mine else "is not told that parameters may be unused"),
              expected="--find-unused-parameters says whether it looks for them")
    both.same("model.devices", look="ddp.wrap", saw="the model is on {mine}", expected="it is on {kits}, and on no other device")
    both.same("made.settings", look="ddp.wrap", saw="the optimizer's {first} is {its}",
              expected="{should}, as the arguments say: the default learning rate grows with the number of processes already")
    both.same("update.gradient", "updated.change", look="ddp.wrap", saw=gradient,
              expected="all processes update with the mean of their gradients, and so keep the same parameters")
    both.same("recorded", look="ddp.metrics", saw=lambda each: f"the {each.name.split('.')[-1]} that goes into the record is "
              f"{each.words()['mine']}{alone(each)}",
              expected="it is {kits}: sums over all processes, divided by the number of all images")
    both.same("validation", look="ddp.validation", saw=lambda each: f"the validation says {each.words()['mine']} as the "
              f"{each.name.split('.')[-1]}", expected="{kits}: sums over all processes, each image counted once")
    both.same("save.wrapped", look="ddp.wrap", saw=lambda each: f"the checkpoint has names such as `{(*each.mine, '')[0]}`",
              expected="those of the plain model, so that it loads without DDP: `model` is wrapped, `net` stays as it is")


def gradient(each):
    """What to say of gradients or updates that differ from the kit's."""
    norms = [update.norm for rank in each.facts.ranks if (update := rank.first("update", step=each.step))]
    if max(norms, default=0) - min(norms, default=0) > 1e-3 * max(norms, default=0):
        return "each process updates its parameters with a gradient of its own"
    return f"the norm of the gradients is {each.words()['size']}"


def alone(each):
    """Which rank calls collectives that another one does not call: they then meet the calls of later steps."""
    calls = [len([call for call in rank.all("collective") if not call.aside]) for rank in each.facts.ranks]
    if len(set(calls)) == 1:
        return ""
    most, least = max(calls), min(calls)
    return f", and rank {calls.index(most)} calls {most} collectives where rank {calls.index(least)} calls {least}"


@claim("NCCL joins GPUs, gloo processes on the CPU", look="ddp.init")
def joined(run, backend):
    asked = run.first("group.asked")
    other = asked and asked.backend and backend not in asked.backend
    return other and (f"`{run.command}`: the backend is {asked.backend}", asked)


@claim("rank 0 alone prints and saves: two processes that write one file damage it", look="")
def reports_once(run):
    for fact in (fact for rank in run.ranks[1:] for fact in (*rank.all("print"), *rank.all("save"))):
        did = f"prints `{fact.text.strip()}`" if fact.what == "print" else "saves a file"
        return f"`{run.command}`: rank {fact.rank} {did}", fact


def read(run):
    """For each epoch and rank the indices of the images that it reads, in their order."""
    epochs = {}
    for rank, facts in enumerate(run.ranks):
        for batch in facts.all("batch.indices", loader=0):
            epochs.setdefault(batch.epoch, [[] for _ in run.ranks])[rank] += batch.indices
    return list(epochs.values())


@claim("each reads its own part, no image twice in an epoch: what cannot be split evenly is left out", look="ddp.sampler")
def split(run):
    for epoch, parts in enumerate(read(run)):
        count, different = sum(map(len, parts)), len(set().union(*parts))
        if count == different * len(parts):
            return f"`{run.command}`: all processes read the same {different} images in epoch {epoch}"
        if count > different:
            return f"`{run.command}`: the processes read {count} images in epoch {epoch}, {count - different} of them twice"
        if IMAGES - count > IMAGES % len(parts):
            return f"`{run.command}`: {IMAGES - count} of {IMAGES} images are read by no process in epoch {epoch}"


@claim("images are shuffled, anew in each epoch", look="ddp.epoch")
def reshuffled(run):
    (first, *_), *others = read(run)
    if first == sorted(first):
        return f"`{run.command}`: images come in the order in which they lie in their folders", "ddp.sampler"
    return any(first == other[0] for other in others) and f"`{run.command}`: the second epoch has the order of the first"


@claim("its order is that of the second epoch: `epoch` counts those before a stop, too", look="ddp.epoch")
def as_without_a_stop(run, whole):
    if read(run)[0] != read(whole)[1]:
        first = " of the first one" if read(run)[0] == read(whole)[0] else " that it would not have had without a stop"
        return f"{run.said}: the second epoch has the order{first}"


@claim("the order comes from --seed: another seed is another experiment", look="ddp.sampler")
def seeded(run, default):
    one, other = ([image for turn in zip(*read(each)[0]) for image in turn] for each in (run, default))
    return one == other[: len(one)] and f"`{run.command}`: the order of images is that of the default seed"


@claim("all validate one model: with the statistics of batch norm of one process, or the mean of them", look="ddp.buffers")
def statistics(run):
    for together in zip(*(facts.all("statistics") for facts in run.ranks)):
        for kind in ("running_mean", "running_var"):
            trained, used = ([fact[when][kind] for fact in together] for when in ("trained", "used"))
            if not all(near(one, used[0]) for one in used):
                return f"`{run.command}`: each process validates with a {kind} of its own"
            mean = [sum(values) / len(values) for values in zip(*trained)]
            if not any(near(used[0], one) for one in (*trained, mean)):
                return (f"`{run.command}`: all validate with a {kind} that is neither that of a process nor the mean of all: "
                        f"{used[0][0]:.4f}, where training ended with {' and '.join(f'{one[0]:.4f}' for one in trained)}")


def near(one, other):
    return max(abs(a - b) for a, b in zip(one, other)) <= 1e-4 * max(map(abs, other))
