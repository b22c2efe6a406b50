"""ddp: several processes train one model: each on its own images, with the same parameters, and what they report is of all."""

from dlojz.labs.checking import expect
from dlojz.labs.ranks import ended_together

TWO, THREE = "with two processes", "with three processes"
LOCAL_RANKS = [2, 0, 1]
SEED = 7  # not train.py's own


def check(probe):
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


def joins(run, backend, where):
    for rank, facts in enumerate(run.ranks):
        if facts.first("group") is None and (facts.first("model") or "process group" in facts.ended.message):
            expect(False,
                   saw=f"{TWO} rank {rank} joins no process group: each trains for itself",
                   expected="all join one before they exchange anything",
                   look="ddp.init")
        asked, numbered = facts.need("group").backend, facts.need("group").rank
        expect(numbered in (None, rank),
               saw=f"{TWO}, each on a node of its own, rank {rank} joins the process group as number {numbered}",
               expected="its number among all processes: its local rank is its number on one node",
               look="ddp.init")
        expect(asked is None or backend in str(asked),
               saw=f"{TWO} {where} the backend of the process group is {asked}",
               expected=f"it is {backend}",
               look="ddp.init")


def shares_out(run):
    """Each epoch: every image once, over both processes; and the epochs in different orders."""
    epochs, whole = read(run), set(range(16))
    told = [list(dict.fromkeys(fact.epoch for fact in facts.all("set_epoch"))) for facts in run.ranks]
    dealing = "ddp.sampler" if told[0] == told[1] else "ddp.epoch"
    for epoch, ranks in epochs.items():
        one, two = set(ranks.get(0, ())), set(ranks.get(1, ()))
        expect(not (one & two) or one != two,
               saw=f"{TWO}, both read the same {len(one)} images in epoch {epoch}",
               expected="each reads its own part",
               look="ddp.sampler")
        expect(not (one & two),
               saw=f"{TWO}, both read {len(one & two)} of the images in epoch {epoch}"
                   + ("" if told[0] == told[1] else f": rank 0 tells its sampler the epochs {told[0]}, rank 1 {told[1]}"),
               expected="no image is read by both",
               look=dealing)
        expect(one | two == whole,
               saw=f"{TWO}, {len(whole - one - two)} of 16 images are read by none of them in epoch {epoch}",
               expected="together they read all of them",
               look=dealing)
    orders = [tuple(ranks[0]) for ranks in epochs.values()]
    expect(orders[0] != tuple(sorted(orders[0])),
           saw=f"{TWO}, images come in the order in which they lie in their folders",
           expected="they are shuffled",
           look="ddp.sampler")
    expect(len(orders) < 2 or len(set(orders)) == len(orders),
           saw=f"{TWO}, the second epoch deals out the images in the order of the first",
           expected="another order in each epoch",
           look="ddp.epoch")


def read(run):
    """{epoch: {rank: the indices of the images that it reads, in their order}}."""
    epochs = {}
    for rank, facts in enumerate(run.ranks):
        for batch in facts.all("batch.indices", loader=facts.need("loader").number):
            epochs.setdefault(batch.epoch, {}).setdefault(rank, []).extend(batch.indices)
    return epochs


def dealt(run):
    """The images of the first epoch in the order in which they are dealt out to the ranks, one by one."""
    return [index for turn in zip(*read(run)[0].values()) for index in turn]


def trains_one_model(run):
    run.need("replica")
    steps = list(zip(*(facts.all("replica") for facts in run.ranks)))
    alone = [replica.alone for replica in steps[0]]
    given = [replica.gradient for replica in steps[0]]
    mean = sum(alone) / len(alone) if None not in alone else None
    expect(not all(near(one, other) for one, other in zip(given, alone)),
           saw=f"{TWO}, each updates its parameters with the gradient of its own batch alone",
           expected="all update with the mean of their gradients",
           look="ddp.wrap")
    expect(mean is None or all(near(one, mean) for one in given),
           saw=f"{TWO}, what the optimizer is given is not the mean of the two gradients" + _times(given, mean),
           expected="all update with the mean of their gradients",
           look="ddp.wrap")
    for step, (one, two) in enumerate(steps, 1):
        expect(near(one.weights, two.weights),
               saw=f"{TWO}, the parameters of the two differ after step {step}",
               expected="they are the same after every step",
               look="ddp.wrap")


def _times(given, mean):
    ratio = given[0] / mean if mean else 0
    return f": it is {ratio:.3g} times that" if all(near(one, ratio * mean) for one in given) else ""


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


def near(one, other):
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-4 * max(abs(one), abs(other), 1e-3)
