"""dataloader: the switches reach both loaders, workers draw their own numbers, and batches hold what is alike in length."""

from dlojz.labs.checking import expect

SWITCHES = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
OFF = {"num_workers": 0, "prefetch_factor": None, "pin_memory": False, "persistent_workers": False}


def check(probe):
    # A GPU that is not there, or the script would leave pinning out by itself.
    off = probe.run("--device cuda", gpus=1)
    one = probe.run("--device cuda --num-workers 1 --pin-memory", gpus=1)  # one without the other: they may be exchanged
    pinned = probe.run("--device cuda --pin-memory", gpus=1)
    all_on = probe.run("--device cuda --num-workers 2 --prefetch-factor 3 --pin-memory --persistent-workers", gpus=1)
    drawn = probe.call("loading.py", "seed", "a loader with `seed_worker` of `loading.py`")
    batches = probe.call("loading.py", "buckets", "`buckets` of `loading.py`")
    loads(off)
    loads(one, num_workers=1, pin_memory=True)
    loads(pinned, pin_memory=True)
    loads(all_on, num_workers=2, prefetch_factor=3, pin_memory=True, persistent_workers=True)
    probe.verified.append("each of the four switches reaches the loader of the training and that of the validation; all are off "
                          "without them")
    draws(drawn)
    probe.verified.append("two workers draw different numbers, others in the next epoch, and the same ones with the same seed")
    groups(batches)
    probe.verified.append(f"each sequence comes once, {batches.need('batches').waste:.0%} of a batch is padding where it is "
                          f"{batches.need('by_chance').waste:.0%} by chance, and another epoch has other batches")
    probe.unverified.append("that it is faster: look at your runs")


def loads(run, **on):
    """Both loaders have these values, and torch's defaults for the rest."""
    run.need("model", training=True)
    loaders = run.all("loader")[:2]
    expect(len(loaders) == 2,
           saw=f"`{run.command}`: {len(loaders)} loader{'s' * (len(loaders) != 1)} made",
           expected="one for the training and one for the validation", look="dataloader")
    for loader, what in zip(loaders, ("training", "validation")):
        for name in SWITCHES:
            wanted, found = (OFF | on)[name], loader[name]
            if name == "prefetch_factor" and name not in on and loader.num_workers:
                wanted = 2  # torch's own where there are workers
            expect(found == wanted,
                   saw=f"`{run.command}`: the loader of the {what} has {name}={found}",
                   expected=f"it has what the switches say: {name}={wanted}", look="dataloader")


def draws(run):
    epochs = run.all("drawn")
    for epoch in epochs:
        first, second = epoch.workers
        expect(not set(first) & set(second),
               saw=f"two workers draw the same numbers: {shown(first)} and {shown(second)}",
               expected="each worker has a generator of its own, with a seed of its own", look="dataloader.seed")
    if len(epochs) < 4:
        run.need("drawn", attempt=1, epoch=1)
    first, second, again, _ = epochs
    expect(not set(first.workers[0]) & set(second.workers[0]),
           saw=f"a worker draws the same numbers in the first epoch and in the second: {shown(first.workers[0])}",
           expected="other numbers in each epoch: the loader starts its workers with another seed each time",
           look="dataloader.seed")
    expect(first.workers == again.workers,
           saw="the same training, begun anew with the same seed, draws other numbers",
           expected="what a worker draws follows from the loader's seed and the worker's number alone", look="dataloader.seed")
    seeds = run.need("seeds")
    expect(seeds.different > 0.99 * seeds.count,
           saw=f"{seeds.count} seeds of a worker give only {seeds.different} different first numbers: other trainings, and other "
               "workers, draw the same",
           expected="other numbers for each seed: give the generator the whole of it", look="dataloader.seed")


def groups(run):
    flat = run.first("no_batches")
    expect(flat is None, saw=f"`buckets` gives {flat and flat.kind} values one by one",
           expected="a list of batches, each of them a list of indices", look="dataloader.buckets")
    run.need("batches")
    chance = run.need("by_chance").waste
    look = "dataloader.buckets"
    for epoch in run.all("batches"):
        expect(not epoch.foreign, saw=f"{epoch.foreign} indices belong to no sequence", expected="indices from 0 to the number "
               "of sequences, less one", look=look)
        expect(not epoch.missing, saw=f"{epoch.missing} sequences of 1003 never come", expected="each one comes once", look=look)
        expect(not epoch.doubled, saw=f"{epoch.doubled} sequences come more than once", expected="each one comes once", look=look)
        expect(epoch.largest <= 7, saw=f"a batch of {epoch.largest} sequences", expected="batches of 7, as asked for", look=look)
        expect(epoch.small <= 1, saw=f"{epoch.small} of {epoch.count} batches are smaller than 7", expected="one at most, with "
               "what is left over", look=look)
        expect(epoch.waste < chance / 2,
               saw=f"{epoch.waste:.0%} of the batches is padding; batches by chance have {chance:.0%}",
               expected="less than half of that: what stands in a batch is alike in length", look=look)
        expect(abs(epoch.trend) < 0.5,
               saw="the batches come in the order of their length",
               expected="long and short ones mixed: what a model sees last, it knows best", look=look)
        expect(abs(epoch.alike) < 0.4,
               saw="batches that come one after the other are alike in length: they still come as they were sorted, part by part",
               expected="long and short batches mixed over the whole epoch", look=look)
    epochs = run.need("epochs")
    expect(epochs.repeated, saw="the same generator gives other batches the second time",
           expected="chance comes from the generator alone, so that a run can be repeated", look=look)
    expect(epochs.common < 0.5,
           saw=f"another epoch has {epochs.common:.0%} of its batches in common with this one",
           expected="other sequences stand together in another epoch", look=look)


def shown(numbers):
    return ", ".join(str(number)[:6] + "…" for number in numbers[:3])
