"""amp: half precision where it is safe, and gradients that neither vanish nor reach the optimizer scaled."""

RUNS = [  # the simplest first; updates from three batches and from one that is left, as the lab ddp_advanced makes them
    "--accumulate 3 --clip-grad 0.1",  # the gradients of the probe's first steps are larger
    "--amp bf16 --accumulate 3",
    "--amp fp16 --accumulate 3",
]
ON_GPUS = {"--amp bf16": {}, "--amp fp16 --clip-grad 0.5": {"overflow_at": 2}}
SPIED = ["torch.nn.utils.clip_grad_value_"]


def check(probe):
    # On the CPU, where autocast and the scaler work as on a GPU; on a simulated GPU; and on a real one, where there is one.
    pairs = [probe.beside(f"{switches} --device {device}", spy=SPIED, solved=["ddp_advanced"])
             for device in probe.devices for switches in RUNS]
    for gpus in ({"gpus": 1, "solved": ["gpu"]}, *([{}] if probe.gpus else [])):
        pairs += [probe.beside(f"{switches} --device cuda", spy=SPIED, **gpus, **more) for switches, more in ON_GPUS.items()]
    for both in pairs:
        table(both)
    if probe.gpus:
        moved = all(map(probe.written, ("gpu.device", "gpu.model", "gpu.batch")))
        said = "all of this on the CPU and on a GPU of this machine" if moved else \
            "the same on a GPU: the model stays on the CPU, since the lab gpu is not solved in this file"
        pairs[-1].says(said) if moved else probe.unverified.append(said)
    probe.unverified.append("that it is faster: that needs hardware for half precision, so compare your runs")


def table(both):
    both.same("model.parameters", look=converted, saw="weights of the model are {mine}",
              expected="the weights stay float32, where small updates do not vanish; only what is computed with them is rounded")
    both.same("model.inputs", look="amp.forward", saw="the model gets different images from those that the loader returned",
              expected="the model gets the images in float32, all digits of them: autocast rounds where it has to")
    both.same("layer.computes", look="amp.forward", saw=computes, expected="it computes in {kits}",
              claim="layers compute in what --amp names, or in float32 without it; weights and loss are float32")
    both.same("loss.computes", look="amp.forward", saw="the loss is computed in {mine}",
              expected="the loss is computed in float32: a sum over a batch needs more digits than half precision has")
    both.same("loss.target", look="amp.forward", saw="the loss gets labels that are not those of the images",
              expected="model and loss get what they get without --amp")
    both.same("backward.autocast", look="amp.forward", saw="autocast is on while the backward pass runs",
              expected="autocast ends with the loss: the backward pass takes for each operation the format of its forward pass")
    both.same("backward.scaled", look=scaler_made, saw=begins_at,
              expected="with fp16 alone it starts from the scaled loss: small gradients vanish in float16, and not in the "
                       "range of float32, which bfloat16 has, too",
              claim="with fp16 alone the loss is scaled, once")
    both.same("backward.times", look="amp.backward",
              saw="apart from the scale, the loss is multiplied by {mine} before the backward pass",
              expected="it is multiplied by {kits}: scaled once, and divided by the number of batches that make an update")
    both.same("backward.retains", look="amp.backward", saw="the backward pass keeps what the forward pass has stored for it",
              expected="it is freed as the backward pass goes: memory is what half precision saves")
    both.same("backward.growth", look="amp.update", saw="the scale is {mine} times that of the first step",
              expected="it is {kits} times that: it backs off after gradients have overflowed, and grows again later",
              claim="with fp16 a step whose gradients are infinite is left out, and the scale backs off")
    both.same("call", look="amp.update", saw="gradients are clipped by value: each number is cut at the limit",
              expected="all numbers are made smaller by one factor, so that the norm is the limit and the direction stays")
    both.same("update.gradient", look=clipped, saw=gradient,
              expected="the norm is {kits}: the gradient of the loss itself, unscaled, the mean over the batches of an update, "
                       "and with --clip-grad no longer than that",
              claim="each update has the gradient of the loss, unscaled and then clipped, also with several batches per update")
    both.same("update.missing", look="amp.update", saw="no update after the backward pass",
              expected="one update for each batch, or each group of batches, whose gradients are finite")
    both.same("update.extra", look="amp.update", saw=one_too_many, expected=lambda each: "no update here: " + (
              "it waits for the last batch of a group" if "--accumulate" in each.facts.command else "each batch has one")
              + ", and a step whose gradients overflowed has none")
    both.same("schedule", look="amp.update", saw="the schedule of the learning rate takes one step too many",
              expected="train.py steps it once for each update, after this fence")
    both.same("recorded.loss", look="amp.backward", saw="the loss goes into the record as {mine}",
              expected="it is {kits}: the variable `loss` stays the loss; what is scaled or divided is for backward() alone")


def converted(each):
    moves = each.facts.all("model.move")
    return next((move for move in moves if move.how == "half" or "float16" in str(move.to)), "amp.dtype")


def computes(each):
    region = each.facts.first("autocast", step=each.step - 1)  # it begins before the step is counted
    around = f"; the autocast around it is for {region.device_type}, in {region.dtype}" if region else ""
    return f"the layer {each.fact.name} ({each.fact.kind}) computes in {each.mine}{around}"


def scaler_made(each):
    return each.facts.first("scaler.made", enabled=each.mine) or "amp.backward"


def begins_at(each):
    made = each.facts.first("scaler.made")
    scaler = f" (the scaler is for {made.device} and switched {'on' if made.enabled else 'off'})" if made else ""
    return "`backward()` starts from the " + ("scaled loss: the scaler is switched on" if each.mine else
                                             f"unscaled loss{scaler}")


def clipped(each):
    return each.facts.first("clip", step=each.step, limit=lambda limit: limit < 1e6) or each.fact


def gradient(each):
    clip, backward = (each.facts.first(what, step=each.step) for what in ("clip", "backward"))
    said = "the norm of the gradients that the optimizer gets is {size}".format_map(each.words())
    still = clip and backward and backward.scaled and clip.norm and backward.norm and abs(clip.norm / backward.norm - 1) < 0.05
    if still and each.mine["norm"] and each.mine["norm"] < 0.1 * each.kits["norm"]:
        return f"{said}: they were clipped before they were unscaled (scale {backward.scale:.0f})"
    return said


def one_too_many(each):
    return "the optimizer makes a step" if each.fact.norm else "the gradients had overflowed, and the optimizer used them"
