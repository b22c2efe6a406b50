"""What the check of hpo calls the functions of search.py with, and what is compared of what they do."""

import copy
import itertools
import math

import optuna
import torch
from torch import nn


class Trial(optuna.trial.FixedTrial):
    """Answers always the same, and remembers what it was asked; the rest is as in Optuna."""

    params = None  # a property there

    def __init__(self, number=0, optimizer="adamw", prune_after=math.inf):
        super().__init__({}, number)
        self.optimizer, self.prune_after = optimizer, prune_after
        self.asked, self.params, self.reported, self.pruning = {}, {}, [], []

    def answer(self, name, asked, value):
        self.asked[name], self.params[name] = asked, value
        return value

    def suggest_float(self, name, low, high, *, step=None, log=False):
        return self.answer(name, f"from {low:g} to {high:g}{f' in steps of {step:g}' if step else ''}, {scale(log)}",
                           math.sqrt(low * high) if log else (low + high) / 2)

    def suggest_int(self, name, low, high, *, step=1, log=False):
        return self.answer(name, f"whole numbers from {low} to {high}, {scale(log)}", high)

    def suggest_categorical(self, name, choices):
        return self.answer(name, "one of " + ", ".join(map(str, sorted(choices))),
                           self.optimizer if self.optimizer in choices else max(choices))

    def report(self, value, step):
        self.reported.append((step, value))

    def should_prune(self):
        self.pruning.append(self.reported[-1][0] if self.reported else 0)
        return len(self.reported) >= self.prune_after


def scale(log):
    return "logarithmic" if log else "linear"


# ------------------------------------------------------------------------------------------------------------------ space
def optimizers():
    for name in ("sgd", "adamw"):
        yield f'a trial that proposes "{name}"', (name,)


def asked(search):
    def facts(optimizer):
        trial = Trial(optimizer=optimizer)
        found = search.suggest(trial)
        wanted = {"optimizer", "lr", "width", "dropout", "momentum" if optimizer == "sgd" else "decay"}
        answers = {name: found.get(name) for name in sorted(wanted)} if isinstance(found, dict) else {}
        return {name: trial.asked.get(name, "not asked for") for name in sorted(wanted)} | {
            "what else is asked for": ", ".join(sorted(set(trial.asked) - wanted)) or "nothing",
            "the configuration": ", ".join(f"{name} {value}" for name, value in answers.items()) or type(found).__name__}

    return facts


# -------------------------------------------------------------------------------------------------------------- objective
def trainings():
    yield "trial 3, 3 epochs, none pruned", (3, [0.5, 0.3, 0.4], math.inf)
    yield "trial 8, 3 epochs, none pruned", (8, [0.9, 0.8, 0.7], math.inf)
    yield "trial 5, pruned after 2 of 4 epochs", (5, [0.9, 0.8, 0.7, 0.6], 2)
    yield "trial 6, one epoch, and a pruner that would stop it", (6, [0.5], 1)


def trained(search):
    def facts(number, errors, prune_after):
        sets = search.Data(*(search.Images(torch.full((2, 4), float(at)), torch.tensor([at, at])) for at in range(3)))
        names = {id(one): name for name, one in sets._asdict().items()}
        trial, calls, given = Trial(number, prune_after=prune_after), [], 0

        def fit(configuration, train, judged, seed, epochs):
            nonlocal given
            calls.append((names.get(id(train), "another set"), names.get(id(judged), "another set"), seed, epochs))
            for error in errors:
                given += 1
                yield error

        try:
            end = f"the error {search.objective(trial, sets, fit, len(errors))}"
        except search.optuna.TrialPruned:
            end = "TrialPruned"
        train, judged, seed, epochs = calls[-1] if calls else ("nothing",) * 4
        return {"the set to train on": train, "the number of trainings": len(calls), "the set to judge by": judged,
                "the seed": seed, "the number of epochs asked for": epochs, "what it ends with": end,
                "the number of epochs trained": given,
                "what it reports": ", ".join(f"{value} after epoch {step}" for step, value in trial.reported) or "nothing",
                "when it asks whether to stop": ", ".join(
                    f"after epoch {step}" for step in trial.pruning if step < len(errors)) or "never",
                "what it asks after the last epoch": "whether to stop" if len(errors) in trial.pruning else "nothing"}

    return facts


# ---------------------------------------------------------------------------------------------------------------- halving
def ladders():
    def of(*errors):
        return [dict(enumerate(each, start=1)) for each in errors]

    three = of([0.5], [0.6], [0.7])
    yield "the first on rung 1", ([], 1, 0.9)
    yield "epoch 6, which is no rung, the worst of four", (of([0.5] * 6, [0.5] * 6, [0.5] * 6), 6, 0.9)
    yield "rung 1, the second of four", (three, 1, 0.55)
    yield "rung 1, the second of six", ([*three, *of([0.8], [0.9])], 1, 0.55)
    yield "rung 1, the third of six", ([*three, *of([0.8], [0.9])], 1, 0.65)
    yield "rung 1, as good as the best of three", (of([0.5], [0.6]), 1, 0.5)
    yield "rung 3, reached by two of five others, better than both", (
        of([0.1], [0.2], [0.3], [0.5, 0.5, 0.5], [0.5, 0.4, 0.6]), 3, 0.45)
    yield "rung 3, reached by two of five others, between them", (
        of([0.8], [0.9], [0.9], [0.5, 0.5, 0.4], [0.5, 0.4, 0.6]), 3, 0.45)
    yield "halving by 2: rung 4, the third of four", (of([0.1] * 4, [0.2] * 4, [0.9] * 4), 4, 0.5, 2)
    yield "halving by 2: rung 4, the second of four", (of([0.1] * 4, [0.6] * 4, [0.9] * 4), 4, 0.5, 2)


def decided(search):
    return lambda *given: "stop" if search.prunes(*given) else "continue"


# ------------------------------------------------------------------------------------------------------------------- best
def lists():
    yield "three complete trials", ([("complete", 0.5), ("complete", 0.3), ("complete", 0.4)],)
    yield "a pruned trial with the smallest value", ([("complete", 0.5), ("pruned", 0.2), ("complete", 0.4)],)
    yield "a failed and a running trial without a value", ([("fail", None), ("running", None), ("complete", 0.4)],)
    yield "pruned trials alone", ([("pruned", 0.2), ("pruned", 0.1)],)


def chosen(search):
    def fact(given):
        found = []
        for number, (state, value) in enumerate(given):
            one = search.optuna.trial.create_trial(
                state=search.optuna.trial.TrialState.RUNNING, intermediate_values={1: value} if value else {})
            one.state, one.value, one.number = search.optuna.trial.TrialState[state.upper()], value, number
            found.append(one)
        try:
            one = search.best(found)
        except ValueError:
            return "ValueError"
        return f"trial {one.number}" if hasattr(one, "number") else f"{one}, which is no trial"

    return fact


# ---------------------------------------------------------------------------------------------------------------- confirm
def finals():
    yield "two, with two seeds; one has the luckiest seed, the other the best mean", (
        {"a": {1: 0.30, 2: 0.50}, "b": {1: 0.36, 2: 0.34}},)
    yield "three, with four seeds", ({"a": {5: 0.1, 6: 0.2, 7: 0.4, 8: 0.5}, "b": {5: 0.3, 6: 0.3, 7: 0.3, 8: 0.4},
                                      "c": {5: 0.2, 6: 0.2, 7: 0.2, 8: 0.5}},)


def confirmed(search):
    def facts(table):
        calls = []

        def score(configuration, seed):
            calls.append(f"{configuration['name']} {seed}")
            return table[configuration["name"]][seed]

        place, means, errors = search.confirm([{"name": name} for name in table], score, list(next(iter(table.values()))))
        return {"trainings": ", ".join(sorted(calls)), "the list of means": torch.tensor([float(one) for one in means]),
                "the list of standard errors": torch.tensor([float(one) for one in errors]),
                "the choice": f"number {int(place)}" if hasattr(place, "__index__") else f"{place}, which is no number"}

    return facts


# -------------------------------------------------------------------------------------------------------------------- muP
def networks():
    def of(*widths):
        return [nn.Linear(fan_in, fan_out) for fan_in, fan_out in itertools.pairwise(widths)]

    yield "three layers of width 8, base 4", (of(3, 8, 8, 2), 0.1, 4)
    yield "as wide as the base", (of(3, 4, 4, 2), 0.1, 4)
    yield "five layers of width 16, base 2", (of(5, 16, 16, 16, 16, 3), 0.01, 2)
    yield "narrower than the base", (of(3, 2, 2, 4), 0.1, 8)


def scaled(search):
    def facts(layers, lr, base):
        layers = copy.deepcopy(layers)
        names = {id(getattr(layer, kind)): f"{kind} {at}" for at, layer in enumerate(layers, 1) for kind in ("weight", "bias")}

        def named(group):  # in any order
            return ", ".join(sorted(names.get(id(one), "something else") for one in group["params"]))

        first, second = search.mup(layers, lr, base)
        return {"the first group": named(first), "its rate": float(first["lr"]), "the second group": named(second),
                "the second group's rate": float(second["lr"]), "the last layer's weight": layers[-1].weight.detach(),
                "all else": torch.cat([one.detach().flatten() for layer in layers
                                       for one in (layer.weight, layer.bias) if one is not layers[-1].weight])}

    return facts
