"""The inputs with which the functions of augment.py are called, and what is compared of those that draw random numbers."""

import argparse
import contextlib
import random
import sys

import numpy as np
import torch

HEIGHT, WIDTH = 32, 48
LAM = (1.0, 0.8, 0.4, 0.2, 0.0, 0.6)  # fifths of whole numbers: none is half way between two
PARTNER = (1, 2, 0, 0, 3, 4)  # earlier ones and later ones; no permutation, so that its inverse is something else
BOXES = ((0, 8, 24, 16), (0, 0, 48, 32), (0, 10, 7, 20), (12, 2, 30, 18), (5, 5, 5, 5), (0, 0, 22, 12))  # …, all, …, none, …
# What RandAugment's fourteen transforms call of torchvision: four of them `affine`, and the one that does nothing none
KERNELS = ("affine", "rotate", "adjust_brightness", "adjust_saturation", "adjust_contrast", "adjust_sharpness", "posterize",
           "solarize", "autocontrast", "equalize")
CALLS = 200
TIED = {1: "lam and x", 2: "lam and y", 5: "x and y"}  # places in the matrix of their correlations


# ----------------------------------------------------------------------------------------------------------------- inputs
def labels():
    for smoothing in (0.0, 0.2):
        for label in (2, 0, -100):
            yield f"label {label} of 4 classes, smoothing {smoothing:g}", (torch.tensor([label]), 4, smoothing)
    yield "4 labels of 5 classes on the GPU", (torch.tensor([2, 0, -100, 3], device="cuda"), 5, 0.1)
    yield "512 labels", (torch.arange(512) % 10, 10, 0.1)


def mixed():
    yield from batches(lambda count: torch.tensor(LAM).repeat(count // 6 + 1)[:count], torch.tensor([0.8, 0.4]))


def boxed():
    yield from batches(lambda count: torch.tensor(BOXES).repeat(count // 6 + 1, 1)[:count],
                       torch.tensor([[0, 8, 24, 24], [5, 5, 5, 5]]))


def batches(shares, two):
    """Batches of images and soft labels, with ``shares(count)``; of two images, with ``two``, the second is to stay as it is."""
    yield "2 float32 images", (images(2, "float32"), torch.eye(2), two, torch.tensor([1, 0]))
    for kind, device in (("float32", "cpu"), ("uint8", "cpu"), ("uint8", "cuda")):
        given = images(6, kind), torch.eye(5)[[0, 1, 2, 3, 4, 1]], shares(6), torch.tensor(PARTNER)
        yield f"6 {kind} images{' on the GPU' * (device == 'cuda')}", tuple(tensor.to(device) for tensor in given)
    many = images(512, "uint8", 8, 8), torch.eye(8).repeat(64, 1), shares(512).clamp(max=8), torch.arange(512).roll(5)
    yield "512 images", many


def images(count, kind, height=HEIGHT, width=WIDTH):
    found = torch.randint(0, 256, (count, 3, height, width), dtype=torch.uint8)
    return found if kind == "uint8" else found / 255


def alphas():
    for alpha in (0.2, 1.0, 5.0):
        yield f"alpha {alpha:g}", (alpha,)


def calls():
    yield f"{CALLS} calls", ()


# ------------------------------------------------------------------------------------------------------------ random numbers
def draws(augment, count=4000):
    def facts(alpha):
        states = generators()
        lam, partner, centres = drawn = augment.draw(count, alpha, np.random.default_rng(7))
        touched = [name for name, state in generators().items() if state != states[name]]
        kinds = {"lam": kind(lam), "partner": kind(partner), "centres": kind(centres)}
        if list(kinds.values()) != [f"float32 [{count}]", f"int64 [{count}]", f"float32 [{count}, 2]"]:
            return kinds
        again, other = (augment.draw(count, alpha, np.random.default_rng(seed)) for seed in (7, 8))
        same = [name for name, one, another in zip(kinds, drawn, other) if torch.equal(one, another)]
        tied = torch.corrcoef(torch.stack([lam, *centres.unbind(1)]).double()).abs().nan_to_num().triu(1).flatten()
        spread, whole = 12 * centres.double().var(0), partner.sort()[0].equal(torch.arange(count))
        anywhere = centres.min() >= 0 and centres.max() <= 1 and (spread - 1).abs().max() < 0.1
        return kinds | {
            "the generator": f"not rng alone, but also {touched[0]}" if touched else "rng",
            "what the same rng gives again": "the same" if all(map(torch.equal, drawn, again)) else "different",
            "lambda": "the same for all images" if lam.min() == lam.max() else "drawn for each image",
            "the mean of lambda": lam.double().mean().item(), "the variance of lambda": lam.double().var().item(),
            "partner": "a permutation" if whole else "no permutation: some images are partners of several others",
            "the place of the centres": "the whole image" if anywhere else "a part of the image, or not uniform",
            "what another rng gives": f"the same {same[0]}" if same else "different",
            "what is drawn of an image": f"tied: {TIED[int(tied.argmax())]}" if tied.max() > 0.15 else "independent"}

    return facts


def transforms(augment):
    def facts():
        transform = augment.of_image(argparse.Namespace(augment="randaugment"))
        given = torch.randint(30, 240, (3, 24, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
        before, results, used = given.clone(), [], []
        for seed in [*range(CALLS), 0]:
            torch.manual_seed(seed)
            with kernels() as names:
                results.append(transform(given))
            used.append(names)
        torch.manual_seed(0)  # how many numbers a transform takes is its own affair
        if kind(results[0]) != kind(before):
            return {"the image that comes out": kind(results[0])}
        most, kinds, unchanged = max(map(len, used)), len(set().union(*used)), sum(torch.equal(each, before) for each in results)
        distinct = len({result.numpy().tobytes() for result in results})
        return {"the image that comes out": kind(results[0]),
                "the image that goes in": "unchanged" if torch.equal(given, before) else "changed",
                "what the same seed of torch gives again": "the same" if torch.equal(results[0], results[-1]) else "different",
                "the number of transforms of one image": "2" if most <= 2 else f"up to {most}",
                "the number of kinds of transforms": "14" if not kinds or kinds >= 9 else f"{kinds}",  # 10 kernels
                "the number of different results": "large" if distinct > 40 else f"{distinct}",
                "the number of results without a change": "small" if unchanged < 0.04 * CALLS else f"{unchanged}"}

    return facts


def kind(value):
    return f"{value.dtype} {list(value.shape)}"[6:] if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"


def generators():
    """Of the random numbers of a training: what stands for each generator's state."""
    return {"torch's generator": torch.get_rng_state().numpy().tobytes(), "numpy's global generator": str(np.random.get_state()),
            "Python's generator": random.getstate()}


@contextlib.contextmanager
def kernels():
    """Those of KERNELS, in order, as torchvision computes them meanwhile; none where a transform does without torchvision."""
    names = []

    def noted(frame, event, _):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        name = name if "_functional_" in file else name.removesuffix("_image") if name.endswith("_image") else ""
        if event == "call" and name in KERNELS and "torchvision" in file:
            names.append(name)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        yield names
    finally:
        sys.setprofile(before)
