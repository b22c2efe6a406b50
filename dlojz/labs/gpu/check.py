"""gpu: the model, the images and the labels are on the GPU of this process, and stay there."""

from dlojz.labs.checking import expect


def check(probe):
    second = probe.run("--device cuda", gpus=2, local_rank=1)  # on any machine: two pretended GPUs, ours is the second
    on_cpu = probe.run("--device cpu", gpus=2)
    trains_on(second, "cuda:1", "as the second process (local_rank 1) of a pretended machine with two GPUs")
    trains_on(on_cpu, "cpu", "with --device cpu on a pretended machine with two GPUs")
    probe.verified.append("model, images and labels are on the GPU of their process, and on the CPU with --device cpu")
    probe.verified.append("nothing comes back to the CPU, and no step waits for a value from the GPU")
    if probe.gpus:
        number = min(probe.gpus, 2) - 1
        trains_on(probe.run("--device cuda", local_rank=number), f"cuda:{number}", "on a GPU of this machine")
        probe.verified.append("it trains on a GPU of this machine")
    else:
        probe.unverified.append("that it trains on a real GPU: this machine has none, so the CPU's memory played two")


def trains_on(run, device, when):
    chosen = run.first("set_device")
    expect(chosen is None or chosen.device != "cuda",
           saw=f"{when}, `device` is `cuda` without a number",
           expected=f"it says which GPU: {device}",
           look="gpu.device")

    model = run.need("model", training=True)
    elsewhere = [name for name in model.devices if name != device]
    wrong_target = elsewhere != ["cpu"] or run.first("model.move", to=lambda to: "cpu" in to)
    expect(not elsewhere,
           saw=f"{when}, the model's weights and buffers are on {' and '.join(model.devices)} in the first step",
           expected=f"all are on {device}",
           look="gpu.device" if wrong_target else "gpu.model")

    back = run.every_step("move", target="cpu", by="own")
    expect(back is None,
           saw=f"{when}, every step copies a tensor of shape {back and back.shape} from the GPU to the CPU",
           expected="what a step needs stays on the GPU: on the way back the host waits",
           look=back)

    images = model.inputs[0]["device"]
    expect(images == device,
           saw=f"{when}, the model is on {device} and the images that it is given are on {images}",
           expected=f"the images are on {device}, too",
           look="gpu.batch")

    labels = run.need("labels").labels["device"]
    expect(labels == device,
           saw=f"{when}, the loss compares outputs on {device} with labels on {labels}",
           expected=f"the labels are on {device}, too",
           look="gpu.batch")

    wait = run.every_step("sync", by="own")
    expect(wait is None,
           saw=f"{when}, every step asks for a value that the GPU has still to compute, so the host waits for it",
           expected="the host goes on and queues the next work; a value is asked for now and then, not in each step",
           look=wait)
