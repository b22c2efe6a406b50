# right: other words for the same
# >>> hpo.space
trial.suggest_categorical("width", WIDTHS), trial.suggest_float("dropout", 0.0, 0.5), trial.suggest_float("lr", 1e-4, 1.0, log=True)
if trial.suggest_categorical("optimizer", ("adamw", "sgd")) == "sgd":
    trial.suggest_float("momentum", 0.0, 0.99)
else:
    trial.suggest_float("decay", 0.001, 1.0, log=True)
return trial.params
# <<< hpo.space
# >>> hpo.objective
errors, last = fit(suggest(trial), train=data.train, judged=data.validation, seed=trial.number, epochs=epochs), 1.0
for epoch in range(1, epochs + 1):
    last = next(errors)
    trial.report(last, step=epoch)
    if epoch != epochs and trial.should_prune():
        raise optuna.exceptions.TrialPruned()
return last
# <<< hpo.objective
# >>> hpo.halving
import math

power = round(math.log(epoch, eta))
if eta ** power != epoch:
    return False
better = sum(one[epoch] < found for one in others if epoch in one)
there = 1 + sum(epoch in one for one in others)
return better >= max(1, there // eta)
# <<< hpo.halving
# >>> hpo.best
complete = [each for each in found if each.state.name == "COMPLETE"]
if not complete:
    raise ValueError("no trial is complete")
return sorted(complete, key=lambda each: each.value)[0]
# <<< hpo.best
# >>> hpo.confirm
import statistics

means, errors = [], []
for configuration in configurations:
    scores = [score(configuration, seed) for seed in seeds]
    means.append(statistics.mean(scores))
    errors.append(statistics.stdev(scores) / len(scores) ** 0.5)
return means.index(min(means)), means, errors
# <<< hpo.confirm
# >>> hpo.mup
scale = base / layers[-1].in_features
layers[-1].weight.data.mul_(scale ** 0.5)
one = {"params": [layer.bias for layer in layers] + [layers[0].weight], "lr": lr}
return [one, {"params": [layer.weight for layer in layers[1:]], "lr": lr * scale}]
# <<< hpo.mup

# right: the study's own idea of the best, numpy for the mean
# >>> hpo.best
values = {trial.value: trial for trial in found if trial.state is optuna.trial.TrialState.COMPLETE}
return values[min(values)]
# <<< hpo.best
# >>> hpo.confirm
import numpy

scores = numpy.array([[score(each, seed) for each in configurations] for seed in seeds])
return scores.mean(0).argmin(), list(scores.mean(0)), list(scores.std(0, ddof=1) / numpy.sqrt(len(seeds)))
# <<< hpo.confirm

# wrong: chosen by the test set · expect: the set to judge by is test.*validation: .*who chooses by the test set.*the fence hpo.objective
# >>> hpo.objective
configuration = suggest(trial)
for epoch, found in enumerate(fit(configuration, data.train, data.test, trial.number, epochs), start=1):
    trial.report(found, epoch)
    if epoch < epochs and trial.should_prune():
        raise optuna.TrialPruned
return found
# <<< hpo.objective

# wrong: the same seed for every trial · expect: the seed is 0.*the number of the trial: 3
# >>> hpo.objective
configuration = suggest(trial)
for epoch, found in enumerate(fit(configuration, data.train, data.validation, 0, epochs), start=1):
    trial.report(found, epoch)
    if epoch < epochs and trial.should_prune():
        raise optuna.TrialPruned
return found
# <<< hpo.objective

# wrong: nothing where no trial is complete · expect: pruned trials alone: .*None, which is no trial.*ValueError
# >>> hpo.best
complete = [trial for trial in found if trial.state.name == "COMPLETE"]
return min(complete, key=lambda trial: trial.value) if complete else None
# <<< hpo.best

# wrong: a pruned trial counts as the best · expect: a pruned trial with the smallest value: .*trial 1.*trial 2.*the fence hpo.best
# >>> hpo.best
return min((trial for trial in found if trial.value is not None), key=lambda trial: trial.value)
# <<< hpo.best

# wrong: a space that cannot hold the answer · expect: lr is from 1e-05 to 0.01, logarithmic.*from 0.0001 to 1, logarithmic
# >>> hpo.space
configuration = {"optimizer": trial.suggest_categorical("optimizer", ["sgd", "adamw"]),
                 "lr": trial.suggest_float("lr", 1e-5, 1e-2, log=True)}
if configuration["optimizer"] == "sgd":
    configuration["momentum"] = trial.suggest_float("momentum", 0, 0.99)
else:
    configuration["decay"] = trial.suggest_float("decay", 1e-3, 1, log=True)
configuration["width"] = trial.suggest_categorical("width", list(WIDTHS))
configuration["dropout"] = trial.suggest_float("dropout", 0, 0.5)
return configuration
# <<< hpo.space

# wrong: wide networks train for fewer epochs · expect: the number of epochs asked for is 1.*the same for all trials: 3
# >>> hpo.objective
configuration = suggest(trial)
epochs = epochs if configuration["width"] < 256 else max(1, epochs // 3)
for epoch, found in enumerate(fit(configuration, data.train, data.validation, trial.number, epochs), start=1):
    trial.report(found, epoch)
    if epoch < epochs and trial.should_prune():
        raise optuna.TrialPruned
return found
# <<< hpo.objective

# wrong: the luckiest seed wins · expect: the choice is number 0.*the smallest mean: number 1.*the fence hpo.confirm
# >>> hpo.confirm
scores = torch.tensor([[score(configuration, seed) for seed in seeds] for configuration in configurations], dtype=torch.float64)
return int(scores.min(1).values.argmin()), scores.mean(1).tolist(), (scores.std(1) / len(seeds) ** 0.5).tolist()
# <<< hpo.confirm

# wrong: each multiple is a rung · expect: epoch 6, which is no rung.*stop.*continue.*the fence hpo.halving
# >>> hpo.halving
reached = sorted([found, *(errors[epoch] for errors in others if epoch in errors)])
return (epoch == 1 or epoch % eta == 0) and found > reached[max(1, len(reached) // eta) - 1]
# <<< hpo.halving

# wrong: all weights get the smaller rate · expect: the first group is bias 1.*the first weight and all biases.*the fence hpo.mup
# >>> hpo.mup
times = layers[-1].in_features / base
with torch.no_grad():
    layers[-1].weight /= times ** 0.5
return [{"params": [layer.bias for layer in layers], "lr": lr}, {"params": [layer.weight for layer in layers], "lr": lr / times}]
# <<< hpo.mup
