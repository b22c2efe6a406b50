"""gpu: the model, the images and the labels are on the GPU of this process, and stay there."""

from dlojz.labs.checking import claim

PLACED = "model, images and labels are on the GPU of their process, and on the CPU with --device cpu"
ELEVENTH = "as the eleventh process (local_rank 10) of srun, which sets no LOCAL_RANK, on a simulated machine with three GPUs"
OTHER_WEIGHTS = "the model's weights, in value or in order, are different from those of the kit's run"
ORDER = {"contiguous": "NCHW", "channels_last": "NHWC"}
WAITS = ("synchronize", "empty_cache")


def check(probe):
    # On any machine: GPUs are simulated. The last run is the eleventh process of its node, which srun starts without LOCAL_RANK:
    # its GPU is the second of three, by no other arithmetic than counting round; and no copy may wait.
    pairs = [probe.beside(f"--device {switches}", gpus=2) for switches in ("cpu", "cuda", "cuda --data random")]
    pairs.append(probe.beside("--device cuda --non-blocking", gpus=3, local_rank=10, when=ELEVENTH))
    if probe.gpus:
        pairs.append(probe.beside("--device cuda", local_rank=min(probe.gpus, 2) - 1))
        pairs[-1].says("it trains on a GPU of this machine")
    else:
        probe.unverified.append("that it trains on a real GPU: this machine has none, so the check simulated three")
    for both in pairs:
        table(both)


def table(both):
    both.same("model.gpu", look="gpu.device", saw="this process uses the GPU {mine}", expected="it uses the GPU {kits}")
    both.same("model.devices", look="gpu.model", saw="the model's weights and buffers are on {mine}",
              expected="all are on {kits}", claim=PLACED)
    both.same("made.devices", look="gpu.model", saw="the model's weights are on {mine} when the optimizer is made",
              expected="all are on {kits} by then")
    both.same("model.parameters", look="gpu.model", saw="weights of the model are {mine}",
              expected="{kits}: this lab moves them, and changes nothing else")
    both.same("model.values", look="gpu.model", saw=OTHER_WEIGHTS, expected="--seed decides them, and the device changes nothing")
    both.same("model.frozen", look="gpu.model", saw="{mine} of the model's parameters have requires_grad=False",
              expected="all parameters are trained, as before")
    both.same("batch.device", "model.inputs.device", look="gpu.batch", saw="the model gets images that are on {mine}",
              expected="they are on {kits}, as the model is")
    both.same("loss.target.device", look="gpu.batch", saw="the loss compares outputs with labels on {mine}",
              expected="the labels are on {kits}, too")
    both.same("batch.shape", "model.inputs.shape", "loss.target.shape", look="gpu.batch", saw="the shape of a batch is {mine}",
              expected="all of it goes to the device: {kits}")
    both.same("batch.dtype", look="gpu.batch", saw="the images are {mine} before they are normalized",
              expected="they go to the device as {kits}, one byte per number, and become floats there")
    both.same("model.inputs.format", look="gpu.batch",
              saw=lambda each: f"the model gets images in {ORDER.get(each.mine, 'neither NCHW nor NHWC')}",
              expected="this lab moves them only: their order in memory stays as the loader returned it")
    both.same("loss.target.dtype", look="gpu.batch", saw="the labels are {mine}", expected="{kits}, as the loader returned them")
    both.same("batch", "model.inputs", look="gpu.batch",
              saw="the model gets different images from those that the loader returned",
              expected="on the device are the same numbers, in the same order and format",
              claim="they equal those that the loader returned, and the CPU waits for a copy unless --non-blocking is set")
    both.same("loss.target", look="gpu.batch", saw="the loss gets different labels from those that the loader returned",
              expected="on the device are the same numbers, in the same order and format")
    for each in (moved_once, stays, as_bytes, waits_for_nothing):
        both.holds(each)
    both.holds(copies, "--non-blocking" in both.mine.command)
    both.says("nothing comes back to the CPU, and no step waits for a value from the GPU")


@claim("the model goes to the device once, before the optimizer is made", look="gpu.model")
def moved_once(run):
    again = run.every_step("model.move", by="own")
    return again and ("the model is moved in every step", again)


@claim("what a step needs stays on the GPU: the CPU waits for each copy back", look="gpu.batch")
def stays(run):
    back = run.every_step("move", target="cpu", by="own")
    return back and (f"every step copies a tensor of shape {back.shape} from the GPU to the CPU", back)


@claim("the CPU continues and queues the next work; values are read now and then, not in every step", look="gpu.batch")
def waits_for_nothing(run):
    wait = run.every_step("sync", by="own")
    what = "waits until the GPU has done all its work" if wait and wait.how in WAITS else \
        "reads a value that the GPU has still to compute, so the CPU waits for it"
    return wait and (f"every step {what}", wait)


@claim("images are copied as the loader returns them, one byte per number, and become floats on the device", look="gpu.batch")
def as_bytes(run):
    floats = next((move for move in of_batches(run) if len(move.shape) == 4 and move.dtype != "uint8"), None)
    return floats and (f"the images go to the GPU as {floats.dtype}", floats)


@claim("args.non_blocking decides for images and labels whether the CPU waits for the copy", look="gpu.batch")
def copies(run, non_blocking):
    other = next((move for move in of_batches(run) if move.non_blocking != non_blocking), None)
    return other and (f"with --non-blocking the CPU waits for the copy of a tensor of shape {other.shape}" if non_blocking else
                      f"without --non-blocking the CPU continues while a tensor of shape {other.shape} is copied", other)


def of_batches(run):
    """The copies to the GPU from the second step on: before it the model is moved, after the last one one validates."""
    last = max(event.step for event in run.all("model", training=True))
    return run.all("move", target=lambda device: device != "cpu", by="own", step=lambda step: 0 < step < last)
