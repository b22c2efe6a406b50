"""memory: the same numbers as without the technique, and less held at a time."""

RECOMPUTED = {
    "the output": "that of the block: {kits}",
    "what is kept of the inside": "{kits}, from the forward pass until the backward pass",
    "what the backward pass computes once more": "{kits}",
    "the gradient": "that of the plain block, dropout included, also where only the weights need one"}
LOSS = {
    "the loss": "the mean over all tokens, each with the same weight, from logits in float32: {kits}",
    "the format of the loss": "{kits}: a sum of logarithms in half precision is off",
    "what is held of the logits": "{kits}: the others are not there yet, or gone, in the backward pass, too",
    "the gradient of x": "that of half of one whole loss, from `(loss / 2).backward()`",
    "the gradient of the head": "that of half of one whole loss, summed over the chunks, from `(loss / 2).backward()`"}
LORA = {
    "the output at first": "{kits}: what is added begins at 0",
    "what learns": "{kits}",
    "what has a gradient that is not 0": "{kits}: were both matrices 0, neither would ever learn",
    "the rank of down at first": "{kits}: rows that begin alike learn alike",
    "the devices of the weights": "{kits}: down and up are where the layer's weight is",
    "the output with other matrices": "linear(x) + alpha / rank * up(down(x)): {kits}",
    "the gradient of the input": "{kits}, through the frozen layer as well: the layers before it learn from this gradient",
    "the output in eval mode": "that in train mode: {kits}"}
STEP = {
    "the number of updates": "{kits}: each parameter once per backward pass",
    "the largest number of gradients at one time": "{kits}: the one that has just arrived",
    "the number of gradients that are left": "{kits} after the backward pass: that is the memory that is saved",
    "the number of optimizers": "{kits}: one per parameter",
    "the weights": "those of the same optimizer, stepped after the backward pass"}


def check(probe):
    def beside(name, by, inputs, look, words, claim):
        probe.call_beside("saving.py", name, inputs, by=by, look=f"memory.{look}", words=words, claim=claim)

    beside("recomputed", "recomputing", "blocks", "recomputed", RECOMPUTED,
           "recomputed blocks keep nothing of the inside, or the products alone, and give the same gradients")
    beside("chunked_loss", "losing", "losses", "loss", LOSS,
           "the loss in chunks equals the whole one, with its gradients, and never holds more than a chunk of logits")
    beside("LoRA", "adapting", "layers", "lora", LORA, "LoRA begins at the layer's output, and only its two matrices learn")
    beside("step_in_backward", "stepping", "nets", "step", STEP,
           "each parameter is updated in the backward pass, and one gradient exists at a time")
    if not probe.gpus:
        probe.unverified.append("the bytes on a GPU: look at your plan and at the recorded ones")
