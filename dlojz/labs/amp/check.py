"""amp: half precision where it is safe, and gradients that neither vanish nor reach the optimizer scaled."""

from dlojz.labs.checking import expect

NORM = 0.5  # for --clip-grad; the gradients of the probe's first step are larger
GROUP = 2  # batches of an update
UNLIMITED = 1e6  # no gradient is that long: clipping to it changes nothing
TOLERANCE = 0.04  # bfloat16 has 8 binary digits
WATCHED = {"contents": True, "reference": True}


def check(probe):
    # On the CPU everywhere, where autocast and the scaler work as on a GPU; and on a GPU where there is one.
    for device in probe.devices:
        bf16 = probe.run(f"--amp bf16 --device {device}", group=GROUP, **WATCHED)
        fp16 = probe.run(f"--amp fp16 --device {device}", group=GROUP, **WATCHED)
        clipped = probe.run(f"--amp fp16 --clip-grad {NORM} --device {device}", overflow_at=2, **WATCHED)
        off = probe.run(f"--clip-grad {NORM} --device {device}", **WATCHED)
        computes_in(bf16, "bfloat16")
        computes_in(fp16, "float16")
        computes_in(off, "float32")
        for run in (bf16, fp16, off):
            gets_all_digits(run)
            goes_back_once(run)
            records_the_loss(run)
        for run in (bf16, off):
            needs_no_scaler(run)
        for run in (bf16, fp16):
            clips_nothing_unasked(run)
        scales_the_loss(fp16)
        for run, limit in ((fp16, None), (clipped, NORM), (bf16, None), (off, NORM)):
            updates(run, limit)
        skips_overflow(clipped)
    probe.verified.append("convolutions compute in what --amp names, or in float32 without it; weights and loss are float32")
    probe.verified.append("with fp16 alone the loss is scaled, and gradients are unscaled before they are clipped")
    if bf16.need("backward").group:
        probe.verified.append("the gradients of each update are those that float32 gives, also with several batches an update")
    else:
        probe.unverified.append("gradients where several batches make an update: this file has no variable `group`")
    probe.verified.append("with fp16 a step whose gradients are infinite is left out, and the scale backs off")
    if probe.gpus and "cpu" in fp16.need("model").devices:
        probe.unverified.append("the same on a GPU: the model stays on the CPU, since the lab gpu is not solved in this file")
    elif probe.gpus:
        probe.verified.append("all of this on the CPU and on a GPU of this machine")
    probe.unverified.append("that it is faster: that takes hardware for half precision; look at your run")


def computes_in(run, dtype):
    model = run.need("model", training=True)
    converted = run.first("model.move", how="half") or run.first("model.move", to=lambda to: "float16" in str(to))
    expect(set(model.parameters) == {"float32"},
           saw=f"`{run.command}`: weights of the model are {' and '.join(model.parameters)}",
           expected="the weights stay float32, where small updates do not vanish; only what is computed with them is rounded",
           look=converted or "amp.dtype")

    run.need("conv")
    computed = sorted({conv.input["dtype"] for conv in run.all("conv", step=1)})
    # Of the first step, before its forward pass. torch itself disables one for a GPU that is not there.
    region = run.first("autocast", enabled=True, step=0) or run.first("autocast", step=0)
    used = next(iter(model.devices)).split(":")[0]
    expect(computed == [dtype] or region is None or region.device_type == used,
           saw=f"`{run.command}`: the model is on the {used}, autocast is switched on for {region and region.device_type}",
           expected="autocast for the type of the device that is used",
           look=region)
    expect(computed == [dtype] or region is None or not region.enabled or [region.dtype] != computed,
           saw=f"`{run.command}`: the convolutions compute in {' and '.join(computed)}, for which autocast is switched on",
           expected=f"they compute in {dtype}",
           look=region)
    expect(computed == [dtype],
           saw=f"`{run.command}`: the convolutions compute in {' and '.join(computed)}",
           expected=f"they compute in {dtype}",
           look="amp.forward")

    # What is added up to the loss. CUDA's autocast hands on the logarithms inside of cross_entropy in half precision.
    loss = run.need("labels")
    expect(loss.input["dtype"] == "float32",
           saw=f"`{run.command}`: the loss is computed in {loss.input['dtype']}",
           expected="the loss is computed in float32: a sum over a batch needs more digits than half precision has",
           look=loss)


def gets_all_digits(run):
    for fed in run.all("fed"):
        expect(fed.difference is not None and fed.difference < 1e-4,
               saw=f"`{run.command}`, step {fed.step}: the images that the model is given are not those that the loader gave",
               expected="the model gets the images in float32, all digits of them: autocast rounds where it has to",
               look=fed)
    for compared in run.all("compared"):
        expect(compared.same,
               saw=f"`{run.command}`, step {compared.step}: the labels that the loss compares with are not those of the images",
               expected="model and loss get what they get without --amp",
               look=compared)


def goes_back_once(run):
    """The backward pass is outside of autocast and leaves nothing behind."""
    for backward in run.all("backward"):
        expect(not backward.autocast,
               saw=f"`{run.command}`: autocast is on while the backward pass runs",
               expected="autocast ends with the loss: the backward pass takes for each operation the format of its forward pass",
               look=backward)
        expect(not backward.retains,
               saw=f"`{run.command}`: the backward pass keeps what the forward pass has stored for it",
               expected="it is freed as the backward pass goes: memory is what half precision saves",
               look=backward)


def records_the_loss(run):
    """What the loop goes on with after the update is the loss itself."""
    for step in run.all("recorded", computed=lambda loss: loss is not None):
        losses = f"the loss is {step.computed:.4g} and goes into the record as {step.loss:.4g}"
        expect(near(step.loss, step.computed),
               saw=f"`{run.command}`, step {step.step}: {losses}",
               expected="the variable `loss` stays the loss itself: what is scaled or divided is for the backward pass alone",
               look="amp.backward")


def clips_nothing_unasked(run):
    clip = run.first("clip", limit=lambda limit: limit < UNLIMITED)
    expect(clip is None,
           saw=f"`{run.command}`: gradients are clipped to the norm {clip.limit if clip else 0:g}",
           expected="they are clipped with --clip-grad alone, and to its norm",
           look=clip)


def needs_no_scaler(run):
    used = run.first("scaler.scale") or run.first("scaler.step") or run.first("scaler.unscale_")
    expect(used is None,
           saw=f"`{run.command}`: the scaler is switched on",
           expected="it is on with fp16 alone: gradients do not vanish in the range of float32, which bfloat16 has, too",
           look=run.first("scaler.made", enabled=True) or used)


def scales_the_loss(run):
    first, made = run.need("backward"), run.first("scaler.made")
    scaler = f" (the scaler is for {made.device} and switched {'on' if made.enabled else 'off'})" if made else ""
    expect(first.scale is None or first.scale > 1,
           saw=f"`{run.command}`: the backward pass begins at the loss as it is{scaler}",
           expected="it begins at a multiple of the loss, so that small gradients do not vanish in float16",
           look=first)
    for backward in run.all("backward"):
        scale, group = scale_of(run, backward.step), backward.group or 1
        expect(scale == 1 or backward.scale is None or any(near(backward.scale, once) for once in (scale, scale / group)),
               saw=f"`{run.command}`, step {backward.step}: the backward pass begins at {backward.scale or 0:.3g} times the loss,"
                   f" and the scale is {scale:.0f}",
               expected="the loss is multiplied by the scale once",
               look=backward)


def scale_of(run, step):
    """What the scaler multiplies with in this step: 1 where it is not used."""
    called = (run.first(f"scaler.{call}", step=step) for call in ("step", "unscale_", "scale"))
    return next((call.scale for call in called if call), 1)


def updates(run, limit):
    """Each update has the gradients that float32 gives: not scaled, of loss / group, and not longer than the limit."""
    spoilt = {event.step for event in run.all("overflow")}
    for backward in run.all("backward"):
        if backward.norm is None or backward.step in spoilt:
            continue
        where, scale, group = f"`{run.command}`, step {backward.step}", scale_of(run, backward.step), backward.group or 1
        if backward.step % group:
            continue
        expect(run.first("update", step=backward.step) or not run.completed,
               saw=f"{where}: no update after the backward pass",
               expected="one update for each batch, or each group of batches",
               look="amp.update")
        clip, update = run.first("clip", step=backward.step), run.need("update", step=backward.step)
        expect(scale == 1 or not (clip and near(clip.norm, backward.norm)) or near(clip.limit, scale * (limit or 0)),
               saw=f"{where}: the gradients were clipped while they were still multiplied by the scale, {scale:.0f}",
               expected="what is clipped is the gradient of the loss itself",
               look=clip)
        expect(scale == 1 or not near(update.norm, backward.norm),
               saw=f"{where}: the gradients that the optimizer gets are still multiplied by the scale, {scale:.0f}",
               expected="the optimizer gets the gradient of the loss itself",
               look=update)
        if update.reference is None:
            continue
        expect(group == 1 or not near(update.norm, update.reference),
               saw=f"{where}, with {group} batches in a group: the gradients that the optimizer gets are their sum",
               expected="they are their mean: each batch adds the gradient of loss / group, where `group` counts the batches",
               look=backward)
        wanted = min(update.reference / group, limit or float("inf"))
        expect(near(update.norm, wanted),
               saw=f"{where}: the norm of the gradients that the optimizer gets is {update.norm or float('inf'):.3g}",
               expected=f"it is {wanted:.3g}, {'the limit' if wanted == limit else 'that of the gradient of the loss itself'}",
               look=update)
        expect(update.cosine is None or update.cosine > 0.9,
               saw=f"{where}: the gradients that the optimizer gets are not those of this batch's loss",
               expected="they have the direction that they have in float32",
               look=update)
    run.need("backward")
    expect(run.all("update"),
           saw=f"`{run.command}`: in every step the gradients overflow, so no step is applied",
           expected="the gradients are finite with the scale that the scaler begins with",
           look="amp.backward")


def skips_overflow(run):
    """A step whose gradients are infinite is not applied, and the next one is scaled less."""
    overflow = run.need("overflow")
    applied = run.first("update", step=overflow.step)
    expect(applied is None,
           saw=f"`{run.command}`: the gradients of step {overflow.step} had overflowed, and the optimizer used them",
           expected="such a step is left out, or the weights are lost",
           look=applied)
    before, after = (run.need("backward", step=step).scale for step in (overflow.step, overflow.step + 1))
    expect(before is None or after is None or after < before,
           saw=f"`{run.command}`: after gradients had overflowed, the scale is the same",
           expected="the scale backs off after an overflow, and grows again later",
           look="amp.update")


def near(one, other):
    return one is not None and abs(one - other) <= TOLERANCE * other
