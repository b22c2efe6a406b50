"""channels_last: weights and images are in NHWC order in memory, from the start and through all layers; shapes do not change."""

from dlojz.labs.checking import claim

ORDER = {"contiguous": "NCHW", "channels_last": "NHWC", "either": "NHWC as well as NCHW"}


def check(probe):
    for device in probe.devices:
        table(probe.beside(f"--device {device}"))
        table(probe.beside(f"--channels-last --device {device}"))
    # DDP remembers how gradients lie in memory when it is given the model; what changes later costs a copy of each gradient.
    two = probe.beside("--channels-last --device cpu", ranks=2, solved=["ddp"])
    two.same("wrap.weights", look="channels_last.model",
             saw="you wrap a model whose weights are in NCHW",
             expected="convert the weights to NHWC before DistributedDataParallel wraps the model",
             claim="DistributedDataParallel wraps a model whose weights are in NHWC")
    table(two)
    probe.unverified.append("that it is faster: that depends on the machine, so compare your runs")


def table(both):
    model, batch = "channels_last.model", "channels_last.batch"
    both.may_differ("made.weights")  # what is converted after the optimizer is made stays the same parameters
    both.same("model.weights", look=model, saw=lies("weights"),
              expected="the switch decides for all of them: NHWC with --channels-last, otherwise unchanged",
              claim="with --channels-last images and weights are in NHWC; without it their format is unchanged")
    both.same("model.inputs.shape", look=batch, saw="the model gets images of shape {mine}, the kit's model {kits}",
              expected="their shape stays [images, 3, height, width]: only the order in memory changes")
    both.same("model.inputs.format", look=batch, saw=lambda each: f"the model gets images in {order(each.mine)}",
              expected="the switch decides for each step: NHWC with --channels-last, otherwise unchanged")
    both.same("layer.input.format", look=model, saw=lambda each: f"the layer {layer(each)} gets {order(each.mine)}",
              expected="from the first layer to the last, all tensors have the format of the images")
    both.same("layer.output.format", look=model, saw=lambda each: f"the layer {layer(each)} returns {order(each.mine)}",
              expected="from the first layer to the last, all tensors have the format of the images",
              claim="the format stays the same: no layer gets or returns another one")
    both.same("model.values", look=model,
              saw="the model's weights, in value or in order, are different from those of the kit's run",
              expected="each weight keeps its value and its place in the tensor: only the order in memory changes")
    both.same("model.frozen", look=model, saw="{mine} of the model's parameters have requires_grad=False",
              expected="all parameters are trained, as before")
    both.same("batch.dtype", look=batch, saw="the images are {mine} before they are normalized",
              expected="they stay uint8 until then: one byte per number that changes its place")
    both.same("batch.shape", look=batch, saw="the images have the shape {mine}",
              expected="all of them, as the loader returned them: {kits}")
    both.same("batch.mark", "model.inputs.mark", look=batch,
              saw="the model gets different images from those that the loader returned",
              expected="each pixel keeps its value and its place in the tensor: only the order in memory changes")
    both.same("loss.target", look=batch, saw="the loss gets different labels from those that the loader returned",
              expected="the labels stay as they are",
              claim="weights, images and labels have the same values as before, each at its place")
    both.holds(once)


@claim("the model is converted once", look="channels_last.model")
def once(run):
    again = run.every_step("model.move", by="own")
    return again and ("the whole model is converted in every step", again)


def lies(what):
    def seen(each):
        apart = [name for name in each.kits if each.mine.get(name) != each.kits[name]]
        first = apart[0]
        return f"{len(apart)} of {len(each.kits)} {what} with 4 dimensions are in {order(each.mine.get(first))}, such as {first}"

    return seen


def layer(each):
    return f"{each.fact.name} ({each.fact.kind})"


def order(tensor_format):
    return ORDER.get(tensor_format, "neither NCHW nor NHWC")
