"""dataloader: the switches reach both loaders, workers draw their own numbers, and batches hold sequences of similar length."""

from dlojz.labs.checking import claim

SWITCHES = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
ALL = "--num-workers 2 --prefetch-factor 3 --pin-memory --persistent-workers"
SEED = {"what two workers draw": "different numbers: each worker has a generator of its own, with a seed of its own",
        "what a worker draws in the second epoch": "different numbers: the loader gives its workers a new seed in each epoch",
        "what is drawn when the training is repeated with the same seed":
        "the same: it follows from the loader's seed and the worker's number alone",
        "what 1000 seeds of a worker give": "1000 different numbers: the generator gets the whole seed"}
BUCKETS = {"padding": "less than half of that: the sequences of a batch have similar lengths",
           "the order of the batches": "short and long batches mixed over the whole epoch",
           "the number of batches smaller than 7": "1 at most, with the sequences that are left over",
           "what the same generator gives again": "the same batches: all that is random comes from the generator",
           "what another epoch gives": "different batches: other sequences are together in another epoch"}


def check(probe):
    # On a simulated GPU, as the script turns pinning off without one. One switch without the next: they may be exchanged.
    for switches in ("", " --num-workers 1 --pin-memory", " --pin-memory", f" {ALL}"):
        loaders(probe.beside(f"--device cuda{switches}", gpus=1))
    loaders(probe.beside("--device cpu --num-workers 1", ranks=2, solved=["ddp"], when="with 2 processes"))
    probe.call_beside("loading.py", "seed_worker", "epochs", by="seeds", look="dataloader.seed", words=SEED,
                      claim="two workers draw different numbers, others in the next epoch, and the same with the same seed")
    probe.call_beside("loading.py", "buckets", "sequences", by="buckets", look="dataloader.buckets", words=BUCKETS,
                      claim="each sequence comes once, with little padding, and another epoch has other batches")
    probe.unverified.append("that it is faster: look at your runs")


def loaders(both):
    for name in SWITCHES:
        both.same(f"loader.{name}", look="dataloader", saw=lambda each, name=name: f"{of(each)} {name}={each.mine}",
                  expected=lambda each, name=name: f"it has what the switches say: {name}={each.kits}",
                  claim="each of the four switches reaches the loaders of training and validation, in each process")
    both.holds(validation_too)


@claim("it has what the switches say, as the loader of the training has", look="dataloader")
def validation_too(run):  # it is made outside of the fence
    for training, validation in zip(run.all("loader"), run.all("loader")[1:2]):
        for name in SWITCHES:
            if training[name] != validation[name]:
                return f"`{run.command}`: the loader of the validation has {name}={validation[name]}", validation
    return None


def of(each):
    return f"the loader of the {('training', 'validation')[each.fact.number]} has"
