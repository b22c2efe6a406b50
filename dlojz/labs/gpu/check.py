"""gpu: the model, the images and the labels are on the GPU of this process, and stay there."""

from dlojz.labs.batches import as_it_was_made, those_of_the_loader
from dlojz.labs.checking import expect

SAME = "on the device are the same numbers, in the same order"


def check(probe):
    # On any machine: GPUs are pretended. Ours is the second, by no other arithmetic than counting round, and one would wait where
    # it need not.
    eleventh = probe.run("--device cuda --non-blocking", gpus=3, local_rank=10, contents=True)
    alone = probe.run("--device cuda", gpus=2, contents=True)
    on_cpu = probe.run("--device cpu", gpus=2, contents=True)
    counts_round(eleventh, 10, 3)
    when = "as the eleventh process (local_rank 10) of srun, which sets no LOCAL_RANK, on a pretended machine with three GPUs"
    trains_on(eleventh, "cuda:1", when, non_blocking=True)
    trains_on(alone, "cuda:0", "alone on a pretended machine with two GPUs")
    trains_on(on_cpu, "cpu", "with --device cpu on a pretended machine with two GPUs")
    probe.verified.append("model, images and labels are on the GPU of their process, and on the CPU with --device cpu")
    probe.verified.append("they are those that the loader gave, and the host waits for a copy, unless --non-blocking is set")
    probe.verified.append("nothing comes back to the CPU, and no step waits for a value from the GPU")
    if probe.gpus:
        number = min(probe.gpus, 2) - 1
        trains_on(probe.run("--device cuda", local_rank=number, contents=True), f"cuda:{number}", "on a GPU of this machine")
        probe.verified.append("it trains on a GPU of this machine")
    else:
        probe.unverified.append("that it trains on a real GPU: this machine has none, so the CPU's memory played three")


def counts_round(run, rank, gpus):
    chosen = run.first("set_device", device=lambda device: device.removeprefix("cuda:").isdigit())
    number = int(chosen.device.removeprefix("cuda:")) if chosen else 0
    expect(number < gpus,
           saw=f"with {gpus} GPUs, the process with local_rank {rank} takes the GPU {number}, which is not there",
           expected=f"it counts round where there are fewer GPUs than processes: the numbers end with {gpus - 1}",
           look="gpu.device")


def trains_on(run, device, when, non_blocking=False):
    chosen = run.all("set_device")
    expect(not any(choice.device == "cuda" for choice in chosen),
           saw=f"{when}, `device` is `cuda` without a number",
           expected=f"it says which GPU: {device}",
           look="gpu.device")

    model = run.need("model", training=True)
    is_here(model.devices, device, f"{when}, the model's weights and buffers are on {{}} in the first step", chosen)
    is_here(run.need("made").devices, device, f"{when}, the optimizer is made when the model's weights are on {{}}", chosen)
    again = run.every_step("model.move", by="own")
    expect(again is None,
           saw=f"{when}, the model is moved in every step",
           expected="it goes to the device once, before the optimizer is made",
           look=again)
    as_it_was_made(run, when, "gpu.model", weights="they are the same on the device")

    back = run.every_step("move", target="cpu", by="own")
    expect(back is None,
           saw=f"{when}, every step copies a tensor of shape {back and back.shape} from the GPU to the CPU",
           expected="what a step needs stays on the GPU: on the way back the host waits",
           look=back)

    for model in run.all("model", training=True):
        images = model.inputs[0]["device"]
        expect(images == device,
               saw=f"{when}, the model is on {device} and the images that it is given are on {images}",
               expected=f"the images are on {device}, too",
               look="gpu.batch")
    run.need("labels")
    for loss in run.all("labels"):
        labels = loss.labels["device"]
        expect(labels == device,
               saw=f"{when}, the loss compares outputs on {device} with labels on {labels}",
               expected=f"the labels are on {device}, too",
               look="gpu.batch")
    those_of_the_loader(run, when, "gpu.batch", every="all of them go to the device", images=SAME, labels=SAME)
    copies(run, device, when, non_blocking)

    wait = run.every_step("sync", by="own")
    what = "waits until the GPU has done all its work" if wait and wait.how in ("synchronize", "empty_cache") else \
        "asks for a value that the GPU has still to compute, so the host waits for it"
    expect(wait is None,
           saw=f"{when}, every step {what}",
           expected="the host goes on and queues the next work; a value is asked for now and then, not in each step",
           look=wait)


def is_here(devices, device, seen, chosen):
    """``chosen``: which GPU the script says that it takes; none where it takes the CPU."""
    named = chosen[-1].device.removeprefix("cuda:") if chosen else "cpu"
    expect(list(devices) == [device],
           saw=seen.format(" and ".join(devices)),
           expected=f"all are on {device}",
           look="gpu.model" if named == device.removeprefix("cuda:") else "gpu.device")


def copies(run, device, when, non_blocking):
    """The batches of the second step and the following ones: before it the model is moved, after the last one one validates."""
    last = max(event.step for event in run.all("model", training=True))
    for move in run.all("move", target=device, by="own", step=lambda step: 0 < step < last):
        what = f"a tensor of shape {move.shape}"
        expect(len(move.shape) < 4 or move.dtype == "uint8",
               saw=f"{when}, the images go to the GPU as {move.dtype}",
               expected="they go as the loader gives them, with one byte for each number, and become floats there",
               look=move)
        expect(move.non_blocking == non_blocking,
               saw=f"{when}, with --non-blocking the host waits for the copy of {what}" if non_blocking else
                   f"{when}, without --non-blocking the host goes on while {what} is copied",
               expected="args.non_blocking says for images and labels whether the host may go on",
               look=move)
