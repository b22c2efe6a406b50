"""augmentation: images and labels mixed in the same shares, by the area that counts, for a whole batch at once, where it lies."""

import math

from dlojz.labs.checking import expect

SIZE = "--data random --batch-size 8"  # the same images and labels in each step, 1000 classes
MIXED = f"--augment mixup --alpha 1 {SIZE}"
EPOCHS = "--augment mixup --alpha 1 --batch-size 8 --device cpu"  # on 16 images: two epochs of two steps


def check(probe):
    gpus = {} if probe.gpus else {"gpus": 1}  # in both calls, so that what is made for a GPU alone comes as far as its mistake
    image, run = probe.call("augment.py", "transforms"), probe.call("augment.py", "functions", **gpus)
    transforms(image)
    draws(run)
    labels(run)
    mixup(run)
    boxes(run)
    for name in ("cutmix", "cutmix_batch"):
        cutmix(run, name)
    whole_batches(run)
    placed(probe.call("augment.py", "on_a_gpu", "the check's use of `augment.py` on a GPU", observe=["transfers"], **gpus))
    trains(probe)
    probe.verified.append("RandAugment draws anew for each image, and gives uint8 back")
    probe.verified.append("lambda follows Beta(alpha, alpha); the model's random numbers stay as they are without augmentation")
    probe.verified.append("mixup and CutMix mix images (uint8, float) and labels in the same shares, CutMix by the area replaced")
    probe.verified.append("a whole batch takes as many operations as a small one, on the device of the images, without a wait")
    probe.verified.append("train.py mixes each batch anew on the device, or in the loader, and learns from soft labels")
    if not probe.gpus:
        probe.unverified.append("that the device is quicker at it: that takes a GPU; look at your runs")


# ---------------------------------------------------------------------------------------------------------------- functions
def transforms(run):
    look = "augmentation.randaugment"
    expect(not run.need("transform").none, saw="`of_image` returns None with --augment randaugment",
           expected="it returns something to call with an image", look=look)
    expect(not run.need("transform").name, saw=f"`of_image` returns the class {run.need('transform').name} itself",
           expected="an instance of it, to call with an image", look=look)
    found = run.need("transformed")
    kind(found, "uint8", [3, 24, 32], "`of_image` makes of a uint8 image (3, 24, 32)", look)
    expect(not found.changed, saw="the image that goes in is changed as well", expected="it stays as it is", look=look)
    expect(found.same, saw="with the same state of torch's random numbers the same image comes out otherwise",
           expected="all that is random comes from torch's generator, which the data set seeds for each image", look=look)
    expect(found.most <= 2, saw=f"one call takes an image through {found.most} transforms", expected="two", look=look)
    expect(not found.kinds or found.kinds >= 9,  # each of the ten comes in 200 calls; none: written without torchvision
           saw=f"{found.tries} calls use {found.kinds} kinds of transforms", expected="all fourteen of RandAugment", look=look)
    expect(found.distinct > 40, saw=f"{found.tries} calls with one image give {found.distinct} different ones",
           expected="two transforms, each drawn anew from fourteen: many more", look=look)
    expect(found.as_it_was < 0.04 * found.tries,
           saw=f"{found.as_it_was} of {found.tries} calls with one image leave it as it was",
           expected="two transforms for each image: only one in 200 draws the one that does nothing twice", look=look)


def draws(run):
    look = "augmentation.draw"
    drawn = run.need("drawn")
    for name, dtype, shape in (("lam", "float32", [drawn.count]), ("partner", "int64", [drawn.count]),
                               ("centres", "float32", [drawn.count, 2])):
        kind(drawn[name], dtype, shape, f"`draw` for {drawn.count} images: {name} is", look)
    for alpha in (0.2, 1.0, 5.0):
        found = run.need("draw", alpha=alpha)
        wanted = 1 / (4 * (2 * alpha + 1))
        expect(found.variance > 0, saw=f"`draw` with alpha {alpha:g} gives every image the same lambda",
               expected="each image has a lambda of its own", look=look)
        expect(abs(found.mean - 0.5) < 0.03 and abs(found.variance / wanted - 1) < 0.12,
               saw=f"`draw` with alpha {alpha:g}: lambda has a mean of {found.mean:.2f} and a variance of {found.variance:.3f}",
               expected=f"those of Beta({alpha:g}, {alpha:g}): 0.5 and {wanted:.3f}", look=look)
        expect(found.whole, saw="`draw`: some images are partners of several others, and some of none",
               expected="partner is a permutation: each image is mixed into one", look=look)
        expect(found.stay < 0.1 * drawn.count, saw=f"`draw`: {found.stay} of {drawn.count} images are their own partners",
               expected="a random permutation, in which hardly any stays where it is", look=look)
        expect(max(found.spread) > 1e-6, saw="`draw` gives all images the same centre",
               expected="each image has a centre of its own", look=look)
        anywhere = 0 <= found.edges[0] < 0.01 and 0.99 < found.edges[1] <= 1
        expect(anywhere and all(abs(12 * each - 1) < 0.1 for each in found.spread),
               saw="`draw`: centres lie between {:.2f} and {:.2f}".format(*found.edges),
               expected="they lie anywhere from 0 to 1, each as likely", look=look)
        expect(not found.touched and found.same,
               saw=f"`draw` takes from {' and '.join(found.touched) or 'some other'} generator: "
                   + ("what the model draws comes out otherwise" if found.touched else "two with the same seed differ"),
               expected="all that it draws comes from `rng`", look=look)
        expect(not found.other, saw=f"`draw` gives the same {' and '.join(found.other)} for `rng` with another seed",
               expected="other numbers: all three are drawn", look=look)
        expect(found.tied[0] < 0.15, saw=f"`draw`: {found.tied[1]} of an image vary together (correlation {found.tied[0]:.2f})",
               expected="lambda and both coordinates of the centre, each drawn for itself", look=look)


def labels(run):
    look = "augmentation.labels"
    for smoothing in (0.0, 0.2):
        found = run.need("labels", smoothing=smoothing)
        kind(found, "float32", [4, 4], f"`soft_labels` of 4 labels, with 4 classes: {found.rows}, which is", look)
        for label, row in zip((2, 0, None, 3), found.rows):
            wanted = [0.0 if label is None else smoothing / 4 + (1 - smoothing) * (each == label) for each in range(4)]
            given = -100 if label is None else label
            expect(close(row, wanted, 1e-5),
                   saw=f"`soft_labels` with a smoothing of {smoothing:g} gives {said(row)} for the label {given}",
                   expected="zeros alone: nobody knows what is on an image that could not be read" if label is None
                   else f"{said(wanted)}: 1 - smoothing for the class of the image, and smoothing / classes for each", look=look)
        expect(not found.changed, saw="`soft_labels` changes the labels that it is given", expected="they stay as they are",
               look=look)


LIKE = {
    "swapped": "are lam of the partner and 1 - lam of the image itself",
    "unmixed": "are those that went in",
    "one share": "are mixed with the first lambda, all of them",
    "inverse": "are mixed with another image than `partner` says: the one whose partner they are",
    "flipped": "are mixed with those of the batch turned round, and not with those that `partner` names",
    "rolled": "are mixed with their neighbours, and not with those that `partner` names",
    "something else": "are not lam of their own and 1 - lam of their partner's",
}


def mixup(run):
    look = "augmentation.mixup"
    for dtype in ("float32", "uint8"):
        found = run.need("mixup", kind=dtype)
        kind(found.images, dtype, [6, 3, 20, 30], f"`mixup` of {dtype} images: they become", look)
        kind(found.labels, "float32", [6, 5], f"`mixup` of {dtype} images: soft labels become", look)
        expect(found.images_are == "right", saw=f"`mixup` of {dtype} images: the images {LIKE.get(found.images_are)}",
               expected="lam x image + (1 - lam) x partner, with each image's own lam", look=look)
        expect(found.off <= (0.501 if dtype == "uint8" else 0.001),
               saw=f"`mixup` of {dtype} images is off by up to {found.off:.2f}",
               expected="values are rounded to the nearest, and only once", look=look)
        expect(found.labels_are == "right", saw=f"`mixup` of {dtype} images: the soft labels {LIKE.get(found.labels_are)}",
               expected="labels in the same shares, with the same partner, as the images", look=look)
        expect(not found.changed, saw="`mixup` changes what it is given", expected="the batch that goes in stays as it is",
               look=look)
    grows(run, "mixup", look)


def boxes(run):
    look, found = "augmentation.boxes", run.need("boxes")
    height, width = found.height, found.width
    kind(found, "int64", [7, 4], "`boxes` for 7 images gives", look)

    def box(share, centre, side, cut):
        half = [side(share) * size / 2 for size in (width, height)]
        middle = [place * size for place, size in zip(centre, (width, height))]
        edges = middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]
        return [(edge, min(max(edge, 0), size) if cut else edge) for edge, size in zip(edges, (width, height) * 2)]

    def there(edges, row):  # rounded in any way; but what lies beyond the border is cut off right there
        return all(abs(number - place) <= (1.01 if abs(edge - place) < 3 else 0.01) for number, (edge, place) in zip(row, edges))

    def fits(side, cut, order=(0, 1, 2, 3), turned=1):
        return all(there(box(share, centre[::turned], side, cut), [row[place] for place in order])
                   for row, share, centre in zip(found.boxes, found.shares, found.centres))

    def root(share):
        return math.sqrt(1 - share)

    def area(row):
        return (row[2] - row[0]) * (row[3] - row[1])

    guesses = {
        f"reach over the border: {said(found.boxes[3])} in an image {width} wide and {height} high": fits(root, False),
        f"are too small: for a lambda of 0.75 one covers {area(found.boxes[2]):.0f} pixels of {height * width}":
            fits(lambda share: 1 - share, True),
        f"cover lambda of the image and not what is left of it: {area(found.boxes[1]):.0f} pixels of {height * width} for 0.9":
            fits(lambda share: math.sqrt(share), True),
        "give top, left, bottom, right": fits(root, True, (1, 0, 3, 2)),
        "have the centre's x where its y belongs, and the other way round": fits(root, True, turned=-1),
        "have the middle where their corner should be, or twice their size": fits(lambda share: 2 * root(share), True),
        f"are moved into the image where they reach over its border: {said(found.boxes[3])}":
            found.boxes[3][2] - found.boxes[3][0] == round(root(found.shares[3]) * width),
        f"reach over the lower border: {said(found.boxes[6])} in an image {width} wide and {height} high":
            found.boxes[6][3] > height,
        f"end a pixel before the border: {said(found.boxes[6])} in an image {width} wide and {height} high":
            found.boxes[6][2:] == [width - 1, height - 1],
    }
    unlike = f"are not where they should be: {', '.join(map(said, found.boxes))}"
    expect(fits(root, True), saw=f"the boxes {next((name for name, holds in guesses.items() if holds), unlike)}",
           expected="left, top, right, bottom of a box round the centre, with 1 - lam of the area, cut off where the image ends",
           look=look)
    expect(not found.changed, saw="`boxes` changes what it is given", expected="lam and centres stay as they are", look=look)


def cutmix(run, name):
    look = f"augmentation.{name}"
    for dtype in ("float32", "uint8"):
        found = run.need(name, kind=dtype)
        kind(found.images, dtype, [6, 3, 20, 30], f"`{name}` of {dtype} images: they become", look)
        kind(found.labels, "float32", [6, 5], f"`{name}` of {dtype} images: soft labels become", look)
        expect(not found.changed, saw=f"`{name}` changes the batch that it is given, which others still need as it was",
               expected="what goes in stays as it is", look=look)
        expect(not found.single, saw=f"`{name}` puts the same box into all images", expected="each image has its own box",
               look=look)
        for number in found.wrong[:1]:
            row = found.rows[number]
            expect(False, saw=f"`{name}`, image {number}: {row['replaced']:.1%} of its pixels are those of its partner, "
                   f"{row['kept']:.1%} its own, and not as the box says",
                   expected="the pixels in the box are the partner's as it came in, all others the image's own", look=look)
        for number, row in enumerate(found.rows):
            weights(name, number, row, look)


def weights(name, number, row, look):
    share = row["replaced"]
    if row["own"] is not None:
        found = row["own"], row["partner"]
        guesses = {": as they came in": (1, 0), ": the wrong way round": (share, 1 - share)}
        guess = next((words for words, weighs in guesses.items() if close(found, weighs, 1e-4)), "")
        expect(close(found, (1 - share, share), 1e-4),
               saw=f"`{name}`, image {number}: {share:.1%} of its pixels are replaced, and the labels weigh {found[0]:.3f} (its "
                   f"own) and {found[1]:.3f} (its partner's){guess}",
               expected="the partner's label weighs as much as the pixels that came from it", look=look)
    expect(row["sum"] is not None and abs(row["sum"] - 1) < 1e-4,
           saw=f"`{name}`, image {number}: the soft label adds up to {row['sum']}", expected="shares add up to 1", look=look)


def whole_batches(run):
    grows(run, "cutmix_batch", "augmentation.cutmix_batch")


def grows(run, name, look):
    few, many = run.need("operations", function=name).counts
    expect(many <= few + 2, saw=f"`{name}` takes {few} operations of torch for 6 images and {many} for 48",
           expected="as many for any number of images", look=look)


def placed(run):
    for name, fence in {"soft_labels": "labels", "mixup": "mixup", "cutmix": "cutmix", "cutmix_batch": "cutmix_batch"}.items():
        found = run.need("placed", function=name)
        expect(all("cuda" in device for device in found.devices),
               saw=f"`{name}`: what goes in is on the GPU, what comes out is on {' and '.join(found.devices)}",
               expected="results are where the images are", look=f"augmentation.{fence}")
        if name != "cutmix":
            waits = between(run, name, "sync")
            expect(not waits, saw=f"`{name}` waits for the GPU: {waits and waits[0].how}",
                   expected="all that decides about pixels stays on the device", look=waits and waits[0])


def between(run, name, what):
    """The facts of one kind from the call of this function to its end."""
    inside, found = False, []
    for event in run.events:
        if event.what in ("begin", "placed"):
            inside = event.what == "begin" and event.function == name
        if inside and event.what == what:
            found.append(event)
    return found


# ----------------------------------------------------------------------------------------------------------------- training
def trains(probe):
    look = "augmentation.batch"
    runs = [probe.run(f"{MIXED} --device {device}") for device in probe.devices]
    plain, loader = probe.run(f"--augment none {SIZE} --device cpu"), probe.run("--augment mixup-cpu --alpha 1 --device cpu")
    epochs = probe.run(EPOCHS)
    for run in runs:
        run.need("targets")
        targets, batches = (run.all(what) for what in ("targets", "batch"))
        soft = all(found.dtype == "float32" and found.shape == [8, 1000] for found in targets)
        expect(soft, saw=f"`{run.command}`: the loss compares with {targets[0].dtype} labels {tuple(targets[0].shape)}",
               expected="with the soft labels of the mixed images", look=look)
        expect(len({found.mark for found in batches}) == len(batches),
               saw=f"`{run.command}`: the model gets the same pixels in each step, though the batch was to be mixed anew",
               expected="other random numbers in each step, and the mixed images for the model", look=look)
        expect(any(len(row) > 1 for found in targets for row in found.rows), saw=f"`{run.command}`: no image has two labels",
               expected="mixed labels", look=look)
        expect({found.dtype for found in batches} == {"uint8"},
               saw=f"`{run.command}`: images are {batches[0].dtype} before they are normalized", expected="uint8, as they came",
               look=look)
    plain.need("targets")
    marks = {found.mark for found in plain.all("batch")}
    expect(len(marks) == 1 and all(found.dtype == "int64" for found in plain.all("targets")),
           saw=f"`{plain.command}` mixes images or labels", expected="without --augment they stay as they are", look=look)
    for run in runs:
        alike(run, plain, look)
    epochs.need("targets")
    shares = [min(row.values()) for found in epochs.all("targets") for row in found.rows if len(row) == 2]
    expect(len(set(shares)) >= len(shares) - 1,  # rounded ones: two may be equal by chance
           saw=f"`{epochs.command}`: the second epoch mixes its images in the same shares as the first one",
           expected="other random numbers for each batch of the training, also in a later epoch", look=look)
    compared = loader.need("targets").dtype
    expect(compared == "float32", saw=f"`{loader.command}`: the loss compares with {compared} labels",
           expected="with the soft labels that come from the loader", look="augmentation.mixup")


def alike(run, plain, look):
    """The images of each step are mixed as their labels are, from the images of a run that mixes nothing."""
    images = dict(zip(plain.need("targets").rows, plain.need("batch").pixels))  # by label
    for found, batch in zip(run.all("targets"), run.all("batch")):
        for row, pixels in zip(found.rows, batch.pixels):
            wanted = [sum(share * images[int(label)][place] for label, share in row.items()) for place in range(len(pixels))]
            expect(close(pixels, wanted, 1.5),
                   saw=f"`{run.command}`: an image's label has the shares {said(sorted(row.values()))}, and its pixels are mixed "
                       "in others, or with another image",
                   expected="images and labels from one and the same call of the mixer", look=look)


# ------------------------------------------------------------------------------------------------------------------ helpers
def kind(found, dtype, shape, words, look):
    is_it = f"{found['dtype']} {tuple(found['shape'])}" if found["dtype"] else f"a {found['kind_of']}"
    expect(found["dtype"] == dtype and found["shape"] == shape, saw=f"{words} {is_it}", expected=f"{dtype} {tuple(shape)}",
           look=look)


def close(some, others, within):
    return len(some) == len(others) and all(abs(one - other) <= within for one, other in zip(some, others))


def said(numbers):
    return f"[{', '.join(f'{number:.3g}' for number in numbers)}]"
