"""augmentation: images and labels mixed in the same shares, by the area that counts, for a whole batch at once, where it lies."""

from dlojz.labs.checking import claim

IMAGES, LABELS = "the batch of images", "the batch of soft labels"
RANDAUGMENT = {
    "the image that goes in": "it stays as it is",
    "what the same seed of torch gives again":
    "the same: all that is random comes from torch's generator, which the data set seeds for each image",
    "the number of different results": "many more: two transforms, each drawn anew from fourteen",
    "the number of results without a change": "two transforms for each image: one in 200 draws twice the one that does nothing"}
DRAW = {
    "the generator": "rng alone: else what the model draws (dropout, …) changes",
    "partner": "a permutation: each image is mixed into one",
    "the mean of lambda": "that of Beta(alpha, alpha): {kits}",
    "the variance of lambda": "that of Beta(alpha, alpha): {kits}",
    "what another rng gives": "lam, partner and centres are all drawn",
    "what is drawn of an image": "lam, x and y are independent"}
SOFT = "{kits}: 1 - smoothing for the image's class and smoothing / classes for each; zeros where the image could not be read"
CUTMIX = {
    IMAGES: "in the box it is the partner unchanged, outside of it the image itself: {kits}",
    LABELS: "the partner's label weighs as much as the pixels that came from it: {kits}",
    "inputs": "the batch that goes in stays as it is: other images still need it",
    "time": "as many operations for 512 images as for two: no loop over images"}
MIXUP = CUTMIX | {
    IMAGES: "lam x image + (1 - lam) x partner, rounded once, and only integers: {kits}",
    LABELS: "lam x label + (1 - lam) x the partner's label, as for the images: {kits}"}
BATCH = "augmentation.batch"
MIXED = "--augment mixup --alpha 1 --batch-size 8"
DRAWN = ("batch.mark", "model.inputs.mark", "loss.target.mark", "loss.value", "update", "updated", "recorded", "validation")


def check(probe):
    def beside(function, inputs, fence="", **more):
        gpus = {} if probe.gpus else {"gpus": 1}  # what is made for a GPU alone comes as far as its mistake
        return probe.call_beside("augment.py", function, inputs, look=f"augmentation.{fence or function}", **gpus, **more)

    probe.call_beside("augment.py", "of_image", "calls", by="transforms", look="augmentation.randaugment", words=RANDAUGMENT,
                      claim="RandAugment draws anew for each image, and gives uint8 back")
    beside("draw", "alphas", by="draws", tolerance=0.08, words=DRAW,
           claim="lambda follows Beta(alpha, alpha); the model's random numbers stay as they are without augmentation")
    beside("soft_labels", "labels", "labels", observe=["transfers"], at_most=4, repeat=0, words={"value": SOFT})
    beside("mixup", "mixed", gives=(IMAGES, LABELS), observe=["transfers"], at_most=4, repeat=0, words=MIXUP)
    batch = beside("cutmix_batch", "boxed", gives=(IMAGES, LABELS), observe=["transfers"], at_most=4, repeat=0, words=CUTMIX,
                   claim="mixup and CutMix mix images (uint8, float) and labels in the same shares, CutMix by the area replaced")
    batch.says("a whole batch takes as many operations as a small one, on the device of the images, without a wait")
    plain = probe.beside("--augment none --data random --batch-size 8 --device cpu")  # the same 8 images in each step
    table(plain)
    for device in probe.devices:
        both = probe.beside(f"{MIXED} --data random --device {device}")
        both.may_differ(*DRAWN)  # by what the trainee's `draw` draws
        table(both)
        both.holds(anew)
        both.holds(together, plain.mine)
    epochs = probe.beside(f"{MIXED} --device cpu")  # 16 images: two epochs of two steps
    epochs.may_differ(*DRAWN)
    epochs.holds(anew)
    epochs.says("train.py mixes each batch anew on the device, in each epoch, and learns from soft labels")
    loader = probe.beside(f"{MIXED.replace('mixup', 'mixup-cpu')} --device cpu")
    loader.may_differ(*DRAWN)
    table(loader, "augmentation.loader")
    loader.holds(anew)
    loader.says("with mixup-cpu the loader does the same")
    if not probe.gpus:
        probe.unverified.append("that the device is quicker at it: that takes a GPU; look at your runs")


def table(both, look=BATCH):
    both.same("batch.dtype", "batch.shape", "batch.device", look=look, saw="the images are {mine} before they are normalized",
              expected="as the mixer returns them: {kits}")
    both.same("loss.target", look=look, saw="the loss compares with labels that are {mine}",
              expected="with the soft labels of the mixed images ({kits}), and without --augment with the labels as they are")
    both.same("batch", "model.inputs", look=look, saw="the images that the model is given are not those that the loader gave",
              expected="without --augment they stay as they are")


@claim("other random numbers for each batch of the training, in a later epoch, too", look=BATCH)
def anew(run):
    shares = [min(row.values()) for found in run.all("targets") for row in found.rows if len(row) == 2]
    if len(set(shares)) < max(1, len(shares) - 1):  # they are rounded: two may be equal
        return f"`{run.command}`: " + ("several batches are mixed in the same shares" if shares else "no image has two labels")
    return None


@claim("images and labels from one and the same call of the mixer", look=BATCH)
def together(run, plain):
    """The images of each step are mixed as their labels are, from the images of a run that mixes nothing."""
    images = dict(zip(plain.need("targets").rows, plain.need("batch").pixels))  # by label
    for targets, batch in zip(run.all("targets"), run.all("batch")):
        for shares, pixels in zip(targets.rows, batch.pixels):
            mixed = [sum(share * images[int(label)][place] for label, share in shares.items()) for place in range(len(pixels))]
            if max(abs(one - other) for one, other in zip(pixels, mixed)) > 1.5:
                return f"`{run.command}`: an image's label has the shares {sorted(shares.values())}, and its pixels other ones"
    return None
