"""hpo: the space, the objective, successive halving, the best trial, its confirmation and muP, each beside the kit's."""

from dlojz.training import trials

SPACE = {"optimizer": "{kits}", "lr": "{kits}: good rates of SGD and AdamW are a hundred times apart: search by ratios",
         "width": "{kits}", "dropout": "{kits}", "momentum": "{kits}", "decay": "{kits}",
         "what else is asked for": "{kits}: what the other optimizer needs means nothing here",
         "the configuration": "a dict of what was suggested, by name: {kits}"}
TRAINED = {"the set to train on": "{kits}", "the number of trainings": "{kits} for a trial",
           "the set to judge by": "{kits}: the network has seen the training set, and who chooses by the test set has nothing "
                                  "left that says how good the choice is",
           "the seed": "the number of the trial: {kits}", "the number of epochs asked for": "the same for all trials: {kits}",
           "what it ends with": "{kits}: that of the last epoch, whatever came before; a trial that is pruned raises TrialPruned",
           "the number of epochs trained": "{kits}: a trial that is pruned trains no further",
           "what it reports": "{kits}",
           "when it asks whether to stop": "{kits}: after each report but the last",
           "what it asks after the last epoch": "{kits}: there is nothing left to save, and a pruned trial cannot be the best"}
HALVING = {"value": "{kits}. Rungs are 1, eta, eta²; of the n that have reached one, this one included, the n // eta best "
                    "continue, one at least"}
BEST = {"value": "{kits}: values are compared after the same number of epochs, and a pruned trial had fewer"}
CONFIRMED = {"trainings": "each configuration with each seed: {kits}", "the choice": "the smallest mean: {kits}",
             "the list of means": "over the seeds, for each configuration: {kits}",
             "the list of standard errors": "s / √n of each, where s² divides by n - 1: {kits}"}
MUP = {"the first group": "the first weight and all biases: {kits}", "its rate": "lr: {kits}",
       "the second group": "the weights of the other layers: {kits}", "the second group's rate": "lr x base / width: {kits}",
       "the last layer's weight": "what torch has drawn, times the square root of base / width: {kits}",
       "all else": "other weights and biases stay as they are drawn"}


def check(probe):
    trials.library()  # where it is not installed, that is all there is to say

    def beside(function, inputs, by, fence, words, claim):
        probe.call_beside("search.py", function, inputs, by=by, look=f"hpo.{fence}", words=words, claim=claim)

    beside("suggest", "optimizers", "asked", "space", SPACE, "the space: scales, ranges, and what only one optimizer has")
    beside("objective", "trainings", "trained", "objective", TRAINED,
           "the objective trains all alike, each trial with its own seed, judges by the validation set, and can be pruned")
    beside("prunes", "ladders", "decided", "halving", HALVING, "successive halving: rungs, places, ties, trials that are behind")
    beside("best", "lists", "chosen", "best", BEST, "a pruned trial is never the best")
    beside("confirm", "finals", "confirmed", "confirm", CONFIRMED, "finalists are chosen by the mean of the same seeds")
    beside("mup", "networks", "scaled", "mup", MUP, "muP's rates and first weights")
    probe.unverified.append("that a search finds what is good: look whether its best values are at an end of their range")
