"""optimizers: groups, schedules, LAMB and the finder as functions; in train.py one step of the schedule for each update made."""

GROUPS = {
    "the number of groups": "{kits}: those that decay, and the rest",
    "the first group": "weights of two dimensions or more, in their order: {kits}",
    "its decay": "what the function is given: {kits}",
    "the second group": "the parameters of one dimension or none, in their order: {kits}",
    "the second group's decay": "0: {kits}",
    "parameters in no group": "each parameter that requires gradients is in one group: {kits}",
    "parameters of no use": "what requires no gradient stays out: {kits}"}
SWEEP = {
    "the number of rates": "{kits}: it ends after all of them, where batches end, or after a loss that is no number or "
                           "above four times the smallest",
    "rates": "{kits}: from the lowest to the highest, each the one before times the same factor",
    "losses": "{kits}: each is the loss of a batch before its update, in training mode, with the weights after those before",
    "batches taken": "one for each update: {kits}",
    "net.weights": "they stay: the sweep is no training", "net.buffers": "the running statistics of batch norm stay, too",
    "net.gradients": "they stay as they were", "net.mode": "{kits}, as before the sweep",
    "optimizer.rates": "{kits}, as before the sweep: else the training begins with the last rate that was tried",
    "optimizer.state": "momenta stay as they are"}
SHARE = ("{kits}. Warm-up: 1/warmup, 2/warmup, … 1. Then constant: 1; cosine: from 1 in the first update after the warm-up, half "
         "a cosine, 0 after the last; wsd: 1, and in the last fifth of all updates in equal steps to 0 after the last")
LAMB = ("{kits}. With decay: lr x trust ratio x (Adam's step + weight_decay x w), the ratio |w| / |Adam's step + weight_decay x "
        "w|, or 1 where one is 0. Without decay: Adam's step alone")
MAKE, STEP = "optimizers.make", "optimizers.step"


def check(probe):
    probe.call_beside("optimizers.py", "parameter_groups", "nets", by="grouped", look="optimizers.groups", words=GROUPS,
                      claim="matrices and kernels decay; norms, biases and scalars do not, and frozen parameters are left out")
    probe.call_beside("optimizers.py", "share", "updates", by="shares", look="optimizers.schedule", words={"value": SHARE},
                      claim="warm-up, cosine and warm-up-stable-decay, from the first update to the one after the last")
    gpus = {} if probe.gpus else {"gpus": 1}
    probe.call_beside("optimizers.py", "Lamb.step", "layers", by="lamb", look="optimizers.lamb", words={"value": LAMB},
                      observe=["transfers"], claim="LAMB as published, Adam's step for norms and biases, and no wait for a GPU",
                      **gpus)
    probe.call_beside("optimizers.py", "find_lr", "sweeps", by="swept", look="optimizers.finder", words=SWEEP,
                      claim="the sweep leaves weights, statistics, gradients, momenta, rates and mode as they were")
    table(probe.beside("--device cpu --schedule constant"))
    table(probe.beside("--schedule cosine --warmup 2 --device cpu"))
    table(probe.beside("--schedule wsd --accumulate 3 --device cpu", solved=["ddp_advanced"]))
    table(probe.beside("--schedule cosine --batch-size 8 --accumulate 4 --device cpu", solved=["ddp_advanced"]))  # two epochs
    table(probe.beside("--schedule cosine --amp fp16 --device cpu", solved=["amp"], overflow_at=2))
    table(probe.beside("--optimizer lamb --decay weights --wd 0.1 --lr 0.01 --device cpu"))
    both = probe.beside("--optimizer adamw --decay weights --wd 0.1 --device cuda", gpus=1, solved=["gpu"])
    table(both)
    both.says("train.py decays what it should, and steps the schedule once for each update that was made")
    probe.unverified.append("which optimizer and rate is better: that depends on model and data; compare runs of several seeds")


def table(both):
    both.same("made.devices", look=MAKE, saw="the weights are on {mine} when the optimizer is made",
              expected="the model is on {kits} by then: an optimizer keeps the tensors that it was given")
    both.same("made.kind", "made.missing", look=MAKE, saw="the optimizer is {mine}", expected="the one of --optimizer: {kits}")
    both.same("update.without", look=MAKE, saw="{mine} of the optimizer's parameters have no gradient when it steps",
              expected="{kits}: gradients are there until the update has used them")
    both.same("made.weights", look=MAKE, saw="the optimizer gets parameters in another order, or others",
              expected="the groups as `parameter_groups` makes them with --decay weights, and all parameters in one without")
    both.same("update.gradient", look=MAKE, saw="the norm of the gradients is {mine} when the optimizer steps",
              expected="{kits}: all of them, as they are until the update has used them")
    both.same("update.lr", look=rate, saw="this update has the learning rate {mine}",
              expected="{kits}: the schedule of the switches, over as many updates as there are, one step for each")
    both.same("schedule.missing", look=STEP, saw="the schedule takes no step after this update",
              expected="one for each update that was made: its length is counted in updates")
    both.same("schedule.extra", look=STEP, saw=extra, expected="one step for each update that was made, and none without one")
    both.same("schedule.lr", look=rate, saw="the schedule goes on to the learning rate {mine}",
              expected="{kits}: the schedule of the switches, over as many updates as there are")
    both.same("updated.change", look=MAKE, saw="the update changes the weights by a vector of norm {mine}",
              expected="{kits}: by --optimizer, --lr and --wd, with decay for what --decay names")


def rate(each):
    return MAKE if each.step <= 1 else STEP


def extra(each):
    return "the schedule takes a step, and " + ("no update was made: the scaler has skipped it" if
                                                each.facts.first("overflow", step=each.step) else "there is no update here")
