"""channels_last: weights and images lie as NHWC in memory, from the start and through all layers; shapes stay as they are."""

from dlojz.labs.batches import as_it_was_made, those_of_the_loader
from dlojz.labs.checking import expect

AS_NHWC = ("channels_last", "either")  # a 1x1 kernel, or an image of 1x1 pixels, lies the same in both formats


def check(probe):
    for device in probe.devices:
        run = probe.run(f"--channels-last --device {device}", contents=True)
        off = probe.run(f"--device {device}", contents=True)
        lies_as_nhwc(run)
        stays_as_it_came(off)
        has_the_same_values(run, "with --channels-last")
        has_the_same_values(off, "without --channels-last")
    probe.verified.append("with --channels-last images and weights lie as NHWC, and without it as they came")
    probe.verified.append("they do so once and for all: no layer gets or gives anything else")
    probe.verified.append("weights, images and labels have the same values as before, each at its place")
    if probe.written("ddp.wrap"):
        is_converted_before_the_wrap(probe)
    else:
        probe.unverified.append("that DistributedDataParallel gets weights that lie as NHWC: nothing is wrapped yet in this file")
    probe.unverified.append("that it is faster: that depends on the machine; look at your run")


def lies_as_nhwc(run):
    model = run.need("model", training=True)
    plain = [name for name, lies in model.weights.items() if lies not in AS_NHWC]
    expect(not plain,
           saw=f"with --channels-last {len(plain)} of {len(model.weights)} weights with 4 dimensions lie as NCHW in step 1, "
               f"such as {plain and plain[0]}",
           expected="all lie as NHWC",
           look="channels_last.model")

    for model in run.all("model", training=True):
        images, where = model.inputs[0], f"with --channels-last, step {model.step}, the model is given images"
        expect(images["shape"][1] == 3,
               saw=f"{where} of shape {images['shape']}",
               expected="their shape stays [images, 3, height, width]: only the order in memory changes",
               look="channels_last.batch")
        expect(images["format"] == "channels_last",
               saw=f"{where} that lie as {order(images)}",
               expected="they lie as NHWC in each step",
               look="channels_last.batch")

    run.need("model.end")
    for layer in run.all("layer", step=1):
        for side, value in (("given", layer.input), ("giving", layer.output)):
            expect(not value or not value["format"] or value["format"] in AS_NHWC,
                   saw=f"with --channels-last the layer {layer.name} ({layer.kind}) is {side} {order(value)}",
                   expected="from the first layer to the last, everything lies as NHWC",
                   look="channels_last.model")

    again = run.every_step("model.move", by="own")
    expect(again is None,
           saw="with --channels-last the whole model is converted in every step",
           expected="it is converted once",
           look=again)


def stays_as_it_came(run):
    model = run.need("model", training=True)
    expect("channels_last" not in model.weights.values(),
           saw="without --channels-last weights of the model lie as NHWC, too",
           expected="the switch decides: without it they lie as they came",
           look="channels_last.model")
    expect(model.inputs[0]["format"] != "channels_last",
           saw="without --channels-last the images lie as NHWC, too",
           expected="the switch decides: without it they lie as they came",
           look="channels_last.batch")


def has_the_same_values(run, when):
    """A memory format says where numbers lie, and not which they are."""
    as_it_was_made(run, when, "channels_last.model",
                   weights="each weight keeps its value and its place in the tensor: only the order in memory changes")
    for batch in run.all("batch"):
        expect(batch.dtype == "uint8",
               saw=f"{when}, step {batch.step + 1}, the images are {batch.dtype} before they are normalised",
               expected="they stay uint8 until then: one byte for each number that is put in another order",
               look="channels_last.batch")
    those_of_the_loader(run, when, "channels_last.batch", every="all of them, in another order in memory",
                        images="each pixel keeps its value and its place in the tensor: only the order in memory changes",
                        labels="the labels stay as they are")


def is_converted_before_the_wrap(probe):
    """DDP remembers how gradients lie in memory when it is given the model; what changes later costs a copy of each gradient."""
    wrap = probe.run("--channels-last --device cpu", ranks=2).first("wrap")
    if wrap is None:
        probe.unverified.append("that DistributedDataParallel gets weights that lie as NHWC: two processes do not come that far")
        return
    expect(all(lies in AS_NHWC for lies in wrap.weights.values()),
           saw="DistributedDataParallel is given a model whose weights lie as NCHW; they are converted after that",
           expected="they lie as NHWC when the model is wrapped",
           look=wrap)
    probe.verified.append("DistributedDataParallel is given weights that lie as NHWC")


def order(tensor):
    return {"contiguous": "NCHW", "channels_last": "NHWC"}.get(tensor and tensor["format"], "neither NCHW nor NHWC")
