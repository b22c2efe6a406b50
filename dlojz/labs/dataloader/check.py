"""dataloader: the switches reach both loaders, in each process."""

from dlojz.labs.checking import claim

SWITCHES = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
ALL = "--num-workers 2 --prefetch-factor 3 --pin-memory --persistent-workers"


def check(probe):
    # On a simulated GPU, as the script turns pinning off without one. One switch without the next: they may be exchanged.
    for switches in ("", " --num-workers 1 --pin-memory", " --pin-memory", f" {ALL}"):
        loaders(probe.beside(f"--device cuda{switches}", gpus=1))
    loaders(probe.beside("--device cpu --num-workers 1", ranks=2, solved=["ddp"], when="with 2 processes"))
    probe.unverified.append("that it is faster: look at your runs")


def loaders(both):
    for name in SWITCHES:
        both.same(f"loader.{name}", look="dataloader", saw=lambda each, name=name: f"{of(each)} {name}={each.mine}",
                  expected=lambda each, name=name: f"it has what the switches say: {name}={each.kits}",
                  claim="each of the four switches reaches the loaders of training and validation, in each process")
    # Whether batches do come in another order is up to the machine: the setting says it each time.
    both.same("loader.in_order", look="dataloader", saw=lambda each: f"{of(each)} in_order={each.mine}",
              expected="batches come in the sampler's order, whatever the number of workers")
    both.same("batch.indices", look="dataloader", saw="the loader reads the images {mine}",
              expected="{kits}: the sampler decides which, and in which order; these switches do not")
    both.same("batch.mark", look="dataloader", saw="the model gets other images in this step",
              expected="the same images in the same order, whatever the number of workers")
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
