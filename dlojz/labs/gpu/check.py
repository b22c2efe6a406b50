"""gpu: the model, the images and the labels are on the GPU of this process, and stay there."""

from dlojz.labs.checking import expect


def check(probe):
    second = probe.run("--device cuda", gpus=2, local_rank=1)  # on any machine: two pretended GPUs, ours is the second
    on_cpu = probe.run("--device cpu", gpus=2)
    everything_on(second, "cuda:1", "the GPU of this process: cuda:1, the second one, since local_rank is 1")
    nothing_comes_back(second)
    everything_on(on_cpu, "cpu", "the CPU, since --device cpu asks for it")
    probe.verified.append("the model, the images and the labels are on the GPU of their process, or on the CPU with --device cpu")
    probe.verified.append("nothing is moved back, and no step waits for a value from the GPU")
    if probe.gpus:
        rank = 1 if probe.gpus > 1 else 0
        real = probe.run("--device cuda", local_rank=rank)
        everything_on(real, f"cuda:{rank}", f"the GPU of this process: cuda:{rank}")
        nothing_comes_back(real)
        probe.verified.append("it trains on a GPU of this machine")
    else:
        probe.unverified.append("that it trains on a real GPU: this machine has none, so the check pretended that there were two")


def everything_on(run, device, expected):
    chosen = run.first("set_device")
    expect(chosen is None or ":" in chosen.device, saw="`device` says cuda, but not which GPU",
           expected=f"the device is {expected}", look="gpu.device")
    model = run.need("model", training=True)
    expect(set(model.devices) == {device}, saw=f"in the first step the model's weights are on {' and '.join(model.devices)}",
           expected=f"the model is on {expected}", look=wrong_device(model.devices, device) or "gpu.model")
    images = model.inputs[0]["device"]
    expect(images == device, saw=f"the model is on {device}, the images that it is given are on {images}",
           expected=f"the images are on {expected}", look="gpu.batch")
    labels = run.need("labels").labels["device"]
    expect(labels == device, saw=f"the loss compares outputs on {run.need('labels').input['device']} with labels on {labels}",
           expected=f"the labels are on {expected}", look="gpu.batch")


def wrong_device(found, device):
    """The fence that chooses the device, where the model went to another GPU, or to a GPU that was not asked for."""
    return "gpu.device" if any(name != "cpu" for name in found) and device not in found else None


def nothing_comes_back(run):
    back = run.first("move", target="cpu", by="own", step=lambda step: 0 < step < 4)
    expect(back is None, saw=f"a step moves a tensor of shape {back and back.shape} back to the CPU",
           expected="what the training needs stays on the GPU: each way back makes the host wait", look=back)
    wait = run.every_step("sync", by="own")
    expect(wait is None, saw="every step waits for the GPU, since the host asks for a value that it has to compute first",
           expected="the host queues the next work meanwhile; sums stay on the GPU and are read now and then", look=wait)
