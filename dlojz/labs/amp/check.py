"""amp: half precision where it is safe, and gradients that neither vanish nor reach the optimizer scaled."""

from dlojz.labs.checking import expect

NORM = 0.5  # for --clip-grad; the gradients of the probe's first step are larger


def check(probe):
    # On the CPU everywhere, where autocast and the scaler work as on a GPU; and on a GPU where there is one.
    for device in probe.devices:
        bf16 = probe.run(f"--amp bf16 --device {device}")
        fp16 = probe.run(f"--amp fp16 --device {device}")
        clipped = probe.run(f"--amp fp16 --clip-grad {NORM} --device {device}", overflow_at=2)
        off = probe.run(f"--clip-grad {NORM} --device {device}")
        computes_in(bf16, "bfloat16")
        computes_in(fp16, "float16")
        computes_in(off, "float32")
        scales_the_loss(fp16)
        for run, limit in ((fp16, None), (clipped, NORM), (bf16, None), (off, NORM)):
            updates(run, limit)
        skips_overflow(clipped)
    probe.verified.append("convolutions compute in what --amp names, or in float32 without it; weights and loss are float32")
    probe.verified.append("with fp16 the loss is scaled, and gradients are unscaled before they are clipped")
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
    region = run.first("autocast", enabled=True)
    used = next(iter(model.devices)).split(":")[0]
    expect(computed == [dtype] or region is None or region.device_type == used,
           saw=f"`{run.command}`: the model is on the {used}, autocast is switched on for {region and region.device_type}",
           expected="autocast for the type of the device that is used",
           look=region)
    expect(computed == [dtype],
           saw=f"`{run.command}`: the convolutions compute in {' and '.join(computed)}",
           expected=f"they compute in {dtype}",
           look="amp.forward")

    loss = run.need("loss")
    expect(loss.input["dtype"] == "float32",
           saw=f"`{run.command}`: the loss is computed in {loss.input['dtype']}",
           expected="the loss is computed in float32: a sum of exponentials needs more digits than half precision has",
           look=loss)


def scales_the_loss(run):
    backward, made = run.need("backward"), run.first("scaler.made")
    scaler = f" (the scaler is for {made.device} and switched {'on' if made.enabled else 'off'})" if made else ""
    expect(backward.scale is None or backward.scale > 1,
           saw=f"`{run.command}`: the backward pass begins at the loss as it is{scaler}",
           expected="it begins at a multiple of the loss, so that small gradients do not vanish in float16",
           look=backward)


def updates(run, limit):
    """In each step the optimizer gets the gradients of the loss itself: neither scaled, nor longer than the limit."""
    spoilt = {event.step for event in run.all("overflow")}
    for backward in run.all("backward"):
        if backward.norm is None or backward.step in spoilt:
            continue
        where, scale = f"`{run.command}`, step {backward.step}", backward.scale or 1
        expect(run.first("update", step=backward.step) or not run.completed,
               saw=f"{where}: no update after the backward pass",
               expected="one update for each batch",
               look="amp.update")
        clip, update = run.first("clip", step=backward.step), run.need("update", step=backward.step)
        expect(scale == 1 or not (clip and near(clip.norm, backward.norm)),
               saw=f"{where}: the gradients were clipped while they were still multiplied by the scale, {scale:.0f}",
               expected="what is clipped is the gradient of the loss itself",
               look=clip)
        expect(scale == 1 or not near(update.norm, backward.norm),
               saw=f"{where}: the gradients that the optimizer gets are still multiplied by the scale, {scale:.0f}",
               expected="the optimizer gets the gradient of the loss itself",
               look=update)
        wanted = min(backward.norm / scale, limit or float("inf"))
        expect(near(update.norm, wanted),
               saw=f"{where}: the norm of the gradients that the optimizer gets is {update.norm or float('inf'):.3g}",
               expected=f"it is {wanted:.3g}, {'the limit' if wanted == limit else 'that of the gradient of the loss itself'}",
               look=update)


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
    return one is not None and abs(one - other) <= 0.02 * other
