"""Search hyperparameters with Optuna: a space, an objective that trains, what is pruned, the best trial, whether it is true.

    python search.py --trials 27 --workers 2                     two processes of this machine: 27 trials, no more, no fewer
    python search.py --trials 81 --workers 8                     with two GPUs: four workers on each
    python search.py --trials 40 --journal runs/search.journal   13 more, on the journal of a search that there was

Several jobs may work on one journal that all of them can reach: a job array with the same command for each. In a job, the journal
is in the folder of the run unless it is named.

The model is small, and so are its images: 16 x 16 grey values of ten shapes. A trial takes a second or two on one core.
"""

import argparse
import contextlib
import os
import sys
from typing import NamedTuple

import torch
from torch import nn

from dlojz import todo  # noqa: F401
from dlojz.data import small
from dlojz.training import distributed, failures, trials

optuna = trials.library(__name__)

EPOCHS = 9  # of each trial that is not pruned: rungs of successive halving are 1, 3 and 9
WIDTHS = (64, 128, 256)
BATCH = 64
IMAGES = {False: (3_000, 1_000, 2_000), True: (10_000, 10_000, 10_000)}  # training, validation, test: without a GPU, with one
JOURNAL = os.environ.get("DLOJZ_RUN", "runs") + "/search.journal"


# ------------------------------------------------------------------------------------------------------------- the training
class Images(NamedTuple):
    """``pixels``: float (images, 256), each image with mean 0 and standard deviation 1. ``labels``: int64 (images,)."""

    pixels: torch.Tensor
    labels: torch.Tensor


class Data(NamedTuple):
    """Three sets: to train, to choose (`validation`), and to say in the end how good it is, once (`test`)."""

    train: Images
    validation: Images
    test: Images


def load(device="cpu", images=None):
    """The three sets on this device, drawn by the kit; ``images``: how many in each."""
    counts = images or IMAGES[torch.device(device).type == "cuda"]
    return Data(*(_prepared(*small.drawn(count, seed, device)) for seed, count in enumerate(counts, start=11)))


def _prepared(images, labels):
    grey = torch.cat([part.float().mean(1, keepdim=True) for part in images.split(1000)])
    pixels = nn.functional.avg_pool2d(grey, 2).flatten(1)
    return Images((pixels - pixels.mean(1, keepdim=True)) / (pixels.std(1, keepdim=True) + 0.1), labels)


def network(width, dropout=0.0, inputs=256, classes=10):
    """Three linear layers; their weights are drawn from torch's generator."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU(),
                         nn.Dropout(dropout), nn.Linear(width, classes))


def fit(configuration, train, judged, seed, epochs):
    """Trains anew and gives after each epoch the error on ``judged``, from 0 to 1. The rest is as `trained` has it."""
    return (error(net, judged) for net in trained(configuration, train, seed, epochs))


def trained(configuration, train, seed, epochs):
    """Trains anew, as `suggest` describes it in ``configuration``, and gives the network after each epoch.

    ``seed`` decides the first weights, the order of the images, and dropout.
    """
    device = train.pixels.device
    torch.manual_seed(seed)
    net = network(configuration["width"], configuration["dropout"]).to(device)
    fused = True if device.type == "cuda" else None
    if configuration["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(net.parameters(), configuration["lr"], momentum=configuration["momentum"], fused=fused)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), configuration["lr"], weight_decay=configuration["decay"], fused=fused)
    for _ in range(epochs):
        epoch_of(net, optimizer, train)
        yield net


def epoch_of(net, optimizer, train):
    """Trains for an epoch. Returns the mean loss of its second half, a scalar tensor."""
    net.train()
    losses = []
    for batch in torch.randperm(len(train.labels), device=train.labels.device).split(BATCH):
        loss = nn.functional.cross_entropy(net(train.pixels[batch]), train.labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses[len(losses) // 2:]).mean()


@torch.no_grad()
def error(net, judged):
    """The fraction of the images that are taken for something else."""
    net.eval()
    return (net(judged.pixels).argmax(1) != judged.labels).float().mean().item()


# ------------------------------------------------------------------------------------------------------------------ the space
def suggest(trial):
    """A configuration, by the ``suggest_…`` methods of a trial of Optuna: a dict of what was suggested, by name.

    ``optimizer``: "sgd" or "adamw". ``lr``: from 1e-4 to 1, on a logarithmic scale. ``momentum``, for SGD only: from 0 to 0.99.
    ``decay``, for AdamW only: from 1e-3 to 1, on a logarithmic scale. ``width``: one of WIDTHS, as categories. ``dropout``: from
    0 to 0.5.
    """
    # >>> hpo.space: scales by ratios are logarithmic; what only one optimizer has is asked only of that one
    configuration = {"optimizer": trial.suggest_categorical("optimizer", ["sgd", "adamw"]),
                     "lr": trial.suggest_float("lr", 1e-4, 1, log=True)}
    if configuration["optimizer"] == "sgd":
        configuration["momentum"] = trial.suggest_float("momentum", 0, 0.99)
    else:
        configuration["decay"] = trial.suggest_float("decay", 1e-3, 1, log=True)
    configuration["width"] = trial.suggest_categorical("width", list(WIDTHS))
    configuration["dropout"] = trial.suggest_float("dropout", 0, 0.5)
    return configuration
    # <<< hpo.space


# -------------------------------------------------------------------------------------------------------------- the objective
def objective(trial, data, fit=fit, epochs=EPOCHS):
    """What Optuna makes small: the error of a configuration that `suggest` gives, after ``epochs`` epochs.

    ``fit``: a function like the one above, which gives an error after each epoch. The seed of a training is the number of its
    trial (``trial.number``). Each error is reported with its epoch, the first is 1. Where the pruner says so, the trial ends with
    `optuna.TrialPruned`; after the last epoch there is nothing left to save, so nobody is asked. Returns that epoch's error.
    """
    # >>> hpo.objective: train on one set, judge by another, report, and stop what is hopeless
    configuration = suggest(trial)
    for epoch, found in enumerate(fit(configuration, data.train, data.validation, trial.number, epochs), start=1):
        trial.report(found, epoch)
        if epoch < epochs and trial.should_prune():
            raise optuna.TrialPruned
    return found
    # <<< hpo.objective


# --------------------------------------------------------------------------------------------------------------- what is pruned
def prunes(others, epoch, found, eta=3):
    """Successive halving without waiting (ASHA: Li et al. 2020, arXiv:1810.05934, algorithm 2): whether to stop a trial now.

    ``others``: of each other trial, the errors reported so far, {epoch: error}; some have not come this far. ``epoch`` and
    ``found``: of this one, just reported. Rungs are the epochs 1, eta, eta², … Between them nothing is pruned. On a rung, those
    that have reached it are compared, this one included: of n, the n // eta best continue, and one at least. Of two that are
    equal, both do.
    """
    # >>> hpo.halving: nothing off the rungs; on a rung, the best of those who have been there
    rung = 1
    while rung < epoch:
        rung *= eta
    if rung != epoch:
        return False
    reached = sorted([found, *(errors[epoch] for errors in others if epoch in errors)])
    return found > reached[max(1, len(reached) // eta) - 1]
    # <<< hpo.halving


class Yours(optuna.pruners.BasePruner):
    """`prunes` as a pruner of Optuna."""

    def prune(self, study, trial):
        others = [one.intermediate_values for one in study.get_trials(deepcopy=False) if one.number != trial.number]
        return bool(prunes(others, trial.last_step, trial.intermediate_values[trial.last_step]))


PRUNERS = {  # for trainings of so many epochs
    "none": lambda epochs: optuna.pruners.NopPruner(),
    "median": lambda epochs: optuna.pruners.MedianPruner(n_startup_trials=5),
    "asha": lambda epochs: optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
    "hyperband": lambda epochs: optuna.pruners.HyperbandPruner(min_resource=1, max_resource=epochs, reduction_factor=3),
    "yours": lambda epochs: Yours(),
}
SAMPLERS = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    # constant_liar: what others are running right now counts as bad, so that workers do not all propose the same
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, n_startup_trials=8, constant_liar=True),
}


# ------------------------------------------------------------------------------------------------------ which one, and is it true
def best(found):
    """The trial with the smallest value among those that ran to their end. ``found``: a list of `optuna.trial.FrozenTrial`.

    A pruned trial has a value, too: that of its last report, after fewer epochs. Raises ValueError where no trial has completed.
    """
    # >>> hpo.best: values are compared after the same number of epochs, or not at all
    return min((trial for trial in found if trial.state == optuna.trial.TrialState.COMPLETE), key=lambda trial: trial.value)
    # <<< hpo.best


def confirm(configurations, score, seeds):
    """Trains the finalists anew, each with all of ``seeds``, and chooses by the mean: one lucky seed must not win.

    ``score(configuration, seed)``: its validation error, a number. Returns (the place of the chosen one in ``configurations``,
    [mean of each], [standard error of each mean]). The standard error is s / √n, where s² divides by n - 1; there are two seeds
    at least.
    """
    # >>> hpo.confirm: the same seeds for all, a mean and how sure it is
    scores = torch.tensor([[score(configuration, seed) for seed in seeds] for configuration in configurations],
                          dtype=torch.float64)
    means = scores.mean(1)
    return int(means.argmin()), means.tolist(), (scores.std(1) / scores.shape[1] ** 0.5).tolist()
    # <<< hpo.confirm


# ------------------------------------------------------------------------------------------------------------- what transfers
def mup(layers, lr, base):
    """muP for Adam: prepares ``layers`` so that the best learning rate is that of a network of width ``base``. Returns groups.

    ``layers``: the linear layers of a network, at least three; each is as wide as its ``in_features``, the first and its inputs
    excepted. By Yang et al. 2022, arXiv:2203.03466, table 3: with m = width / base, weights of the hidden layers and of the last
    one get the learning rate lr / m; those of the first layer, and all biases, lr. The last layer's weights begin 1/√m times as
    large as torch has drawn them; they are changed in place. Returns a list of two dicts for torch.optim.Adam, "params" and "lr":
    what gets lr, then what gets lr / m.
    """
    # >>> hpo.mup: a sum over more inputs needs smaller steps
    first, *hidden, last = layers
    times = last.in_features / base
    with torch.no_grad():
        last.weight /= times ** 0.5
    narrow = [first.weight, *(layer.bias for layer in layers)]
    return [{"params": narrow, "lr": lr}, {"params": [layer.weight for layer in (*hidden, last)], "lr": lr / times}]
    # <<< hpo.mup


def transfer(data, widths=WIDTHS, rates=(), epochs=3, seed=1, base=64):
    """Yields rows of the training loss (mean of the last half epoch) by ``scheme`` ("standard", "muP"), ``width`` and ``lr``."""
    for width in widths:
        for scheme in ("standard", "muP"):
            for lr in rates or [2.0**power for power in range(-12, -3)]:
                torch.manual_seed(seed)
                net = network(width).to(data.train.pixels.device)
                layers = [layer for layer in net if isinstance(layer, nn.Linear)]
                groups = [{"params": list(net.parameters()), "lr": lr}] if scheme == "standard" else mup(layers, lr, base)
                optimizer = torch.optim.Adam(groups, fused=data.train.pixels.is_cuda or None)
                for _ in range(epochs):
                    loss = epoch_of(net, optimizer, data.train)
                yield {"scheme": scheme, "width": width, "lr": lr, "loss": loss.item()}


# --------------------------------------------------------------------------------------------------------------- the workers
def devices(kind):
    """What the workers of this process take in turn: all GPUs that it may use; its own, where there is a process for each."""
    if kind != "cuda":
        return [kind]
    place = distributed.processes()
    mine = range(torch.cuda.device_count()) if place.world_size == 1 else [place.local_rank]
    return [f"cuda:{number}" for number in mine]


def work(args, device):
    """One worker. Returns the numbers of the trials that it has run."""
    torch.set_num_threads(args.threads)
    data = load(device, args.images)
    search = trials.Search(args.journal, PRUNERS[args.pruner](args.epochs), SAMPLERS[args.sampler])
    return search.run(lambda trial: objective(trial, data, epochs=args.epochs), args.trials, args.seed)


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("--journal", default=JOURNAL, help="the file that all workers share (%(default)s)")
    add("--trials", type=int, default=27, help="how many in all, those that are there included (%(default)s)")
    add("--workers", type=int, default=1, help="processes on this machine (%(default)s)")
    add("--sampler", choices=SAMPLERS, default="tpe")
    add("--pruner", choices=PRUNERS, default="yours")
    add("--epochs", type=int, default=EPOCHS, help="of a trial that is not pruned (%(default)s)")
    add("--seed", type=int, default=0, help="of the sampler")
    add("--images", type=int, nargs=3, help="for training, validation, test")
    add("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    add("--threads", type=int, default=1, help="of each worker: these matrices are too small for more")
    add("--part", metavar="DEVICE", help=argparse.SUPPRESS)  # started by another worker, which keeps the account
    args = parser.parse_args(argv)
    if min(args.trials, args.workers, args.epochs, args.threads) < 1:
        parser.error("--trials, --workers, --epochs and --threads are 1 or more")
    trials.checked(args.journal)
    return args


def main(argv=None):
    args = arguments(argv)
    if args.part:
        work(args, args.part)
        return
    given, places = sys.argv[1:] if argv is None else argv, devices(args.device)
    with trials.accounted(args.journal, *places[: args.workers]):
        beside = [[sys.executable, __file__, *given, "--part", places[number % len(places)]] for number in range(1, args.workers)]
        with trials.beside(beside) as codes:
            mine = work(args, places[0])
    study = trials.Search(args.journal).study
    states = [trial.state.name.lower() for trial in study.trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    print(f"this worker ran {len(mine)} of {args.trials} trials; all: {counts}")
    with contextlib.suppress(ValueError):
        chosen = best(study.trials)
        short = {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in chosen.params.items()}
        print(f"the best: trial {chosen.number}, error {chosen.value:.4f}, {short}")
    used = trials.account(study)
    if used["gpu_seconds"]:
        energy = "energy not measured" if used["joules"] is None else f"{used['joules'] / 1000:.2f} kJ"
        print(f"all workers so far: {used['gpu_seconds'] / 3600:.3f} GPU hours, {energy}")
    if any(codes):
        print(f"{sum(map(bool, codes))} workers beside this one ended with an error; their trials were taken up again",
              file=sys.stderr)


if __name__ == "__main__":
    with failures.reported():
        main()
