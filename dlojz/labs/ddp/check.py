"""ddp: several processes train one model: each on its own images, with the same parameters, and what they report is of all."""

from dlojz.labs.checking import claim

IMAGES = 16  # of the probe's
SEED = 7  # not train.py's own
WAYS = ("collective", "wrap.missing", "model.weights", "group.made.backend", "save.extra")  # hooks, all_gather
DEALT = ("batch.indices", "batch.mark", "model.inputs.mark", "loss.target.mark", "loss.value", "update.gradient", "updated",
         "recorded", "validation.loss")  # what follows from who reads which images in which order


def check(probe):
<<<<<<< HEAD
    # Who reads which images, and whose statistics of batch norm all validate with, is the trainee's to choose. First the kit
    # chooses, so that all numbers can be compared: each process is on a node of its own, 16 images do not go evenly into them,
    # and an epoch has two batches, so that it ends where --metric-every does not.
    model = probe.beside("--device cpu --batch-size 3 --metric-every 3 --checkpoint-every 2", ranks=3, local_ranks=[0, 0, 0],
                         uneven=True, solved=["ddp.sampler", "ddp.epoch", "ddp.buffers"])
    images = probe.beside("--device cpu", ranks=2, local_ranks=[0, 0])
    gpus = probe.beside(f"--device cuda --sync-bn --find-unused-parameters --seed {SEED}", ranks=3, gpus=3, local_ranks=[2, 0, 1],
                        solved=["gpu"])
    alone = probe.beside("--device cpu --test-steps 2")
    for both, backend in ((model, "gloo"), (images, "gloo"), (gpus, "nccl"), (alone, "")):
        table(both)
        both.may_differ(*WAYS, *(() if both is model else DEALT))
        both.holds(joined, backend)
        both.holds(reports_once)
    for both in (images, gpus):
        both.holds(split)
        both.holds(reshuffled)
    images.holds(statistics)
    gpus.holds(seeded, images.mine)
    model.says("three processes have the same parameters after each step; loss and accuracy are those of all images")
    images.says("two processes read each their own part of the images, in another order each epoch; rank 0 alone reports")
    gpus.says("on three pretended GPUs each process has its own; --sync-bn converts batch norm before the wrap; --seed counts")
    alone.says("one process trains as before")
    probe.unverified += ["several nodes: here processes only believe that they are on three",
                         "NCCL, and that more processes are faster: that takes as many GPUs; look at your runs"]
=======
    # An epoch has two batches, so that it ends where --metric-every does not; and each process is on a node of its own.
    both = probe.run("--device cpu --metric-every 3 --checkpoint-every 2", ranks=2, replicas=True, uneven=True,
                     local_ranks=[0, 0])
    moved = all(probe.written(fence) for fence in ("gpu.device", "gpu.model", "gpu.batch"))
    # Three processes, into which 16 images do not go evenly; on pretended GPUs, whose numbers are not those of the ranks.
    on_three = {"ranks": 3, "gpus": 3, "local_ranks": LOCAL_RANKS, "replicas": True}
    gpus = probe.run(f"--device cuda --sync-bn --find-unused-parameters --seed {SEED}", **on_three) if moved else None
    alone = probe.run("--device cpu --test-steps 2")
    converts_where_asked(both, alone)
    joins(both, "gloo", "on the CPU")
    ended_together(both)
    shares_out(both)
    trains_one_model(both)
    sums_metrics(both)
    validates_together(both)
    reports_once(both)
    probe.verified.append("two processes read each their own part of the images, together all, each epoch in another order")
    probe.verified.append("gradients are averaged: after each step both have the same parameters")
    probe.verified.append("loss and accuracy are those of all images, each counted once, also where a process has one less")
    probe.verified.append("both validate with the same statistics of batch norm; rank 0 alone prints and saves")
    if gpus is not None:
        on_gpus(gpus, both)
        probe.verified.append("on three pretended GPUs each process has its own; --sync-bn converts batch norm before the wrap")
        probe.verified.append("three processes share out images and sums, too; --seed gives another order")
    else:
        probe.unverified.append("devices, SyncBatchNorm, --seed, more than two processes: the lab gpu is not solved in this file")
    trains_alone(alone)
    probe.verified.append("one process trains as before")
    probe.unverified.append("several nodes: here processes only believe that they are on two")
    probe.unverified.append("NCCL, and that more processes are faster: that takes as many GPUs; look at your runs")
>>>>>>> main


def table(both):
    both.same("group.asked.rank", look="ddp.init", saw="it joins the process group as number {mine}",
              expected="its number among all processes, {kits}: its local rank is its number on one node")
    both.same("wrap.kinds", look="ddp.sync_bn", saw=lambda each: "DistributedDataParallel is given a model with " + (
              "SyncBatchNorm, without --sync-bn" if "SyncBatchNorm" in each.mine else "BatchNorm2d, with --sync-bn"),
              expected="the switch decides, and batch norm is converted before the model is wrapped")
    both.same("wrap.devices", look="ddp.wrap", saw="DistributedDataParallel is given {mine} as its device",
              expected="the GPU of this process, {kits}: its local rank, its number on this node, says which")
    both.same("wrap.find_unused", look="ddp.wrap", saw=lambda each: "DistributedDataParallel " + (
              "looks for unused parameters in each step" if each.mine else "is not told that parameters may be unused"),
              expected="--find-unused-parameters says whether it looks for them")
    both.same("model.devices", look="ddp.wrap", saw="the model is on {mine}", expected="it is on {kits}, and on no other device")
    both.same("made.settings", look="ddp.wrap", saw="of the optimizer's settings differ {where}",
              expected="they are as the arguments say: the default learning rate grows with the number of processes already")
    both.same("update.gradient", "updated.change", look="ddp.wrap", saw=gradient,
              expected="all processes update with the mean of their gradients, and so keep the same parameters")
    both.same("recorded", look="ddp.metrics", saw=lambda each: f"the {each.name.split('.')[-1]} that goes into the record is "
              f"{each.words()['mine']}", expected="it is {kits}: sums over all processes, divided by the number of all images")
    both.same("validation", look="ddp.validation", saw=lambda each: f"the validation says {each.words()['mine']} as the "
              f"{each.name.split('.')[-1]}", expected="{kits}: sums over all processes, each image counted once")
    both.same("save.wrapped", look="ddp.wrap", saw=lambda each: f"the checkpoint has names such as `{(*each.mine, '')[0]}`",
              expected="those of the plain model, so that it loads without DDP: `model` is wrapped, `net` stays as it is")


def gradient(each):
    """What to say of gradients or updates that differ from the kit's."""
    norms = [update.norm for rank in each.facts.ranks if (update := rank.first("update", step=each.step))]
    if max(norms, default=0) - min(norms, default=0) > 1e-3 * max(norms, default=0):
        return "each process updates its parameters with a gradient of its own"
    return f"the norm of the gradients is {each.words()['mine']}, {each.words()['ratio']} times what it should be"


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


@claim("the order comes from --seed: another seed is another experiment", look="ddp.sampler")
def seeded(run, default):
    one, other = ([image for turn in zip(*read(each)[0]) for image in turn] for each in (run, default))
    return one == other[: len(one)] and f"`{run.command}`: the order of images is that of the default seed"


<<<<<<< HEAD
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
=======
def sums_metrics(run, where=TWO):
    """What each process hands to the Chronometer, against what both have seen since the last time."""
    seen = [[0.0, 0, 0] for _ in run.ranks]
    rows = [[fact for fact in facts.events if fact.what in ("batch.loss", "sums") and fact.get("training", True)]
            for facts in run.ranks]
    handed = [[] for _ in rows]
    for rank, facts in enumerate(rows):
        for fact in facts:
            if fact.what == "sums":
                handed[rank].append((fact, seen[rank]))
                seen[rank] = [0.0, 0, 0]
            else:
                add(seen[rank], fact)
    for together in zip(*handed):
        total = [sum(mine[place] for _, mine in together) for place in range(3)]
        for rank, (fact, mine) in enumerate(together):
            judge(rank, fact.sums, mine, total, f"after step {fact.step}", "ddp.metrics", where)


def validates_together(run):
    totals = []
    for facts in run.ranks:
        mine, found = [0.0, 0, 0], []
        for fact in facts.events:
            if fact.what == "batch.loss" and not fact.training:
                add(mine, fact)
            elif fact.what == "validated":
                found.append((fact, mine))
                mine = [0.0, 0, 0]
        totals.append(found)
    statistics = [facts.all("buffers") for facts in run.ranks]
    for one, two in zip(*statistics):
        expect(near(one.statistics, two.statistics),
               saw=f"{TWO}, each validates with the running means and variances of its own batches",
               expected="all validate one model: with the same statistics of batch norm",
               look="ddp.buffers")
    for found in zip(*(last_trained(facts) for facts in run.ranks)):
        trained, used = [trained for trained, _ in found], found[0][1]
        for kind, name, room in (("running_mean", "mean", 0.0), ("running_var", "variance", 0.5)):
            wrong = [number for number, (value, *found) in enumerate(zip(used[kind], *(each[kind] for each in trained)))
                     if not between(value, found, room)]
            expect(not wrong,
                   saw=f"{TWO}, all validate with {shown(used[kind], wrong)} as a running {name} "
                       f"that was {' and '.join(shown(each[kind], wrong) for each in trained)} when training paused",
                   expected="the statistics of one of the processes, or the mean of them",
                   look="ddp.buffers")
        expect(one_mixture(used["running_mean"], *(each["running_mean"] for each in trained)),
               saw=f"{TWO}, all validate with running means that are in some places those of one process and in others "
                   "those of the other",
               expected="the statistics of one of the processes, or the mean of them",
               look="ddp.buffers")
    for together in zip(*totals):
        total = [sum(mine[place] for _, mine in together) for place in range(3)]
        for rank, (fact, mine) in enumerate(together):
            images = fact.images
            expect(images == total[2],
                   saw=f"{TWO}, rank {rank} says that it has validated {images} images; it has looked at {mine[2]}, "
                       f"both together at {total[2]}",
                   expected="the number is that of all processes, each image counted once",
                   look="ddp.validation")
            judge(rank, [fact.loss * images, fact.accuracy * images, images], mine, total, "of the validation", "ddp.validation")


def last_trained(facts):
    """For each validation: the running statistics after the last step before it, and those it begins with."""
    found, trained = [], None
    for fact in facts.events:
        if fact.what == "replica":
            trained = fact.trained
        elif fact.what == "buffers" and trained is not None:
            found.append((trained, {"running_mean": fact.running_mean, "running_var": fact.running_var}))
            trained = None
    return found


def one_mixture(values, one, other):
    """Whether all values, each of which lies between one and other, are mixed from the two in the same shares."""
    apart, beyond = [a - b for a, b in zip(one, other)], [value - b for value, b in zip(values, other)]
    square = sum(gap * gap for gap in apart)
    share = sum(gap * part for gap, part in zip(apart, beyond)) / square if square else 0.0
    return all(abs(part - share * gap) <= 1e-3 * square**0.5 for gap, part in zip(apart, beyond))


def between(value, found, room):
    """Whether a value is one of those found or a mean of them; ``room``: the part by which it may be above, as a variance that
    is pooled, and so has that of the means in it."""
    low, high = min(found), max(found)
    slack = 1e-4 * max(abs(low), abs(high), 1e-3)
    return low - slack <= value <= high + room * abs(high) + slack


def shown(values, wrong):
    return f"{values[wrong[0]]:.4f}" if wrong else ""


def add(sums, fact):
    for place, value in enumerate((fact.loss * fact.images, fact.correct, fact.images)):
        sums[place] += value


def judge(rank, said, mine, total, when, fence, where=TWO):
    """``said``, ``mine``, ``total``: loss x images, correct, images; what counts is loss and accuracy."""
    for place, name in enumerate(("loss", "accuracy")):
        value, wanted, own = (sums[place] / sums[2] if sums[2] else float("nan") for sums in (said, total, mine))
        only = " (its own alone)" if near(value, own) and not near(own, wanted) else ""
        expect(near(value, wanted),
               saw=f"{where}, rank {rank} has {value:.4f} as the {name} {when}{only}; over the images of all it is {wanted:.4f}",
               expected="sums over all processes, divided by the number of all images",
               look=fence)


def reports_once(run):
    for saved in run.ranks[0].all("save"):
        expect(not saved.wrapped,
               saw=f"{TWO}, the checkpoint has names such as `{saved.wrapped and saved.wrapped[0]}`",
               expected="those of the plain model, so that it loads without DDP: `model` is wrapped, `net` stays as it is",
               look="ddp.wrap")
    for rank, facts in enumerate(run.ranks[1:], 1):
        printed, saved = facts.first("print"), facts.first("save", path=to_a_file)
        expect(saved is None,
               saw=f"{TWO}, rank {rank} saves a file, too",
               expected="rank 0 alone saves: two processes that write one file damage it",
               look=saved)
        expect(printed is None,
               saw=f"{TWO}, rank {rank} prints `{printed and printed.text.strip()[:60]}`",
               expected="rank 0 alone prints, or the log has every line as often as there are processes",
               look=printed)


def on_gpus(run, both):
    """Three pretended GPUs: each process on its own, batch norm converted before the wrap; no image twice, sums over all."""
    joins(run, "nccl", "on (pretended) GPUs")
    for facts in run.ranks:
        wrap = facts.first("wrap")
        if wrap is not None:
            plain = [kind for kind in wrap.kinds if kind.startswith("BatchNorm")]
            expect(not plain,
                   saw=f"with --sync-bn, DistributedDataParallel is given a model with {' and '.join(plain)}",
                   expected="its batch norm layers are converted before it is wrapped",
                   look="ddp.sync_bn")
    for rank, (facts, local) in enumerate(zip(run.ranks, LOCAL_RANKS)):
        wrapped = facts.first("wrapped")
        given = wrapped and wrapped.devices
        expect(not given or given == [local],
               saw=f"on (pretended) GPUs, DistributedDataParallel of rank {rank} is given device_ids={given}",
               expected=f"the GPU of this process: its local rank, its number on this node, is {local}",
               look="ddp.wrap")
    ended_together(run)
    for rank, (facts, local) in enumerate(zip(run.ranks, LOCAL_RANKS)):
        devices = list(facts.need("model", training=True).devices)
        expect(devices == [f"cuda:{local}"],
               saw=f"on a (pretended) machine with three GPUs, the model of rank {rank} is on {' and '.join(devices)}",
               expected=f"its local rank, its number on this node, is {local}: it is on cuda:{local}, and on no other",
               look="ddp.wrap")
    for facts, switch in ((run, True), (both, False)):
        wrap = facts.first("wrap")
        expect(wrap is None or wrap.find_unused == switch,
               saw=f"`{facts.command}`: DistributedDataParallel "
                   + ("is not told that parameters may be unused" if switch else "looks for unused parameters in each step"),
               expected="--find-unused-parameters says whether it looks for them",
               look="ddp.wrap")
    parts = read(run)[0]
    indices = [index for part in parts.values() for index in set(part)]
    twice = len(indices) - len(set(indices))
    expect(not twice or max(len(part) for part in parts.values()) <= 5,
           saw=f"{THREE}, 16 images are filled up to 18: {twice} of them are read by two in epoch 0",
           expected="no image twice in an epoch: where they cannot be shared out evenly, some are left out",
           look="ddp.sampler")
    expect(not twice,
           saw=f"{THREE}, {twice} of 16 images are read by two of them in epoch 0",
           expected="each reads its own part, however many processes there are",
           look="ddp.sampler")
    expect(len(indices) >= 15,
           saw=f"{THREE}, all together read {len(indices)} of 16 images in epoch 0",
           expected="15: five each",
           look="ddp.sampler")
    expect(dealt(run) != dealt(both)[: len(dealt(run))],
           saw=f"--seed {SEED} deals out the images in the order of the default seed",
           expected="the order comes from --seed: another seed is another experiment",
           look="ddp.sampler")
    sums_metrics(run, THREE)


def trains_alone(run):
    group = run.first("group")
    expect(group is None,
           saw="one process, without others, makes a process group",
           expected="one process trains without: there is nobody to wait for",
           look=group)


def converts_where_asked(*runs):
    for run in runs:
        wrap = run.first("wrap")
        expect(wrap is None or "SyncBatchNorm" not in wrap.kinds,
               saw="without --sync-bn, batch norm is converted to SyncBatchNorm",
               expected="the switch decides",
               look="ddp.sync_bn")


def to_a_file(path):
    return path is not None  # else a tensor on its way to another process
>>>>>>> main


def near(one, other):
    return max(abs(a - b) for a, b in zip(one, other)) <= 1e-4 * max(map(abs, other))
