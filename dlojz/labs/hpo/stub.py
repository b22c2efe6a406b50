# >>> hpo.space
# TODO: ask the trial for each of them, as the docstring says. Which scale is logarithmic? What is asked in one case only?
todo("hpo")
return {"optimizer": "adamw", "lr": 1e-3, "decay": 1e-2, "width": 64, "dropout": 0.0}
# <<< hpo.space

# >>> hpo.objective
# TODO: a configuration, its errors epoch by epoch. On which set? With which seed? Who hears of each error, and may stop it?
todo("hpo")
return 1.0
# <<< hpo.objective

# >>> hpo.halving
# TODO: is this epoch a rung? Who has reached it, how many of them go on, is this one among them?
return False
# <<< hpo.halving

# >>> hpo.best
# TODO: which of these values can be compared? As it is, the first trial is the best.
return found[0]
# <<< hpo.best

# >>> hpo.confirm
# TODO: several trainings of each, their means, and how sure the means are. As it is, nothing is trained.
return 0, [1.0 for _ in configurations], [0.0 for _ in configurations]
# <<< hpo.confirm

# >>> hpo.mup
# TODO: which weights add up more products in a wider network? As it is, all get the same rate, as in the standard parametrization.
return [{"params": [each for layer in layers for each in (layer.weight, layer.bias)], "lr": lr}, {"params": [], "lr": lr}]
# <<< hpo.mup
