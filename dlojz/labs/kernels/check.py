"""kernels: nothing waits, a mean of segments without a loop, what is dispatched, and three kernels of one's own."""

from dlojz.labs.checking import claim

LOSS = {"the loss": "the mean over the images whose label counts: {kits}",
        "its gradient": "that of the mean over the images that count; zeros for ignored ones",
        "waits": "the host goes on launching: no value is read, and no size depends on values",
        "error": "a loss of 0 where no image counts"}
NOISE = {"value": "the loss of outputs with normal noise of this standard deviation: {kits}"}
SEGMENTS = {"value": "the sum of a segment's rows divided by their number, and 0 where it has none: {kits}",
            "waits": "the host goes on launching: no size depends on values",
            "time": "as many operations for 200 segments as for two"}
NAMES = {"the names": "{kits}", "the result": "what the operation returns, called with all of its arguments"}
POINTWISE = {"value": "0.5 y (1 + erf(y / sqrt 2)) of y = x + bias, in float32: {kits}",
             "error": "reads and writes within the tensors, in float32"}
SOFTMAX = {"value": "exp(x) divided by the sum of exp(x) over the whole row: {kits}", "error": "reads and writes within the row"}
ATTENTION = {"value": "softmax(scale q kᵀ) v over the columns that a row may see: {kits}",
             "error": "blocks as the docstring says"}


def check(probe):
    def beside(function, inputs, fence, words, **more):
        probe.call_beside("kernels.py", function, inputs, look=f"kernels.{fence}", words=words, interpret=True, **more)

    gpus = {} if probe.gpus else {"gpus": 1}
    watched = {"observe": ["transfers"], **gpus}
    beside("noisy_loss", "losses", "waits", LOSS, by="without_noise", **watched,
           claim="`noisy_loss` is right, also where all labels are ignored, and waits for nothing")
    beside("noisy_loss", "noises", "waits", NOISE, by="with_noise", tolerance=0.03)
    sent = probe.call("kernels.py", "on_the_gpu", "`noisy_loss` on a GPU", interpret=True, **watched)
    nothing_sent.judge(sent)
    probe.verified.append(nothing_sent.sentence)
    beside("segment_mean", "rows", "segments", SEGMENTS, **watched, at_most=1.5, repeat=0,
           claim="`segment_mean` takes no more operations and no wait for more segments")
    beside("Listing", "programs", "dispatch", NAMES, by="listed", observe=(), claim="`Listing` names what is done, and does it")
    beside("bias_gelu", "biases", "pointwise", POINTWISE, observe=(),
           claim="your kernels are right for odd sizes, strides, large numbers, and half precision")
    beside("softmax", "softmaxes", "softmax", SOFTMAX, observe=())
    beside("attention", "attentions", "attention", ATTENTION, observe=(), tolerance=None)
    if not probe.gpus:
        probe.unverified.append("how fast your kernels are: that takes a GPU and Triton. Here they were run block by block")


@claim("no numbers are made on the host and sent to the GPU", look="kernels.waits")
def nothing_sent(run):
    moved = [fact for fact in run.all("move") if fact.target != "cpu"][2:]  # the first two are what the check calls it with
    return f"a tensor of the shape {list(moved[0].shape)} is made on the CPU and copied to the GPU" if moved else None
