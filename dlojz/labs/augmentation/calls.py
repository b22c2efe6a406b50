"""What the check calls in augment.py: each function with numbers whose answer is known, and what it returned as facts."""

import argparse
import contextlib
import random
import sys

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

HEIGHT, WIDTH, CLASSES = 20, 30, 5
LAM = (1.0, 0.75, 0.5, 0.1, 0.0, 0.3)  # of mixup
PARTNER = (1, 2, 0, 0, 3, 4)  # earlier ones and later ones; no permutation, so that its inverse is something else
LABELS = (0, 1, 2, 3, 4, 1)
BOXES = ((3, 4, 13, 9), (0, 0, 30, 20), (0, 10, 7, 20), (12, 2, 30, 18), (5, 5, 5, 5), (0, 0, 22, 12))  # …, all, …, none, …
SHARES = (1.0, 0.9, 0.75, 0.36, 0.19, 0.0, 0.51)  # of boxes, which reach over each border
# What RandAugment's fourteen transforms call of torchvision: four of them `affine`, and the one that does nothing none.
CALLED = ("affine", "rotate", "adjust_brightness", "adjust_saturation", "adjust_contrast", "adjust_sharpness", "posterize",
          "solarize", "autocontrast", "equalize")
CENTRES = ((0.5, 0.5), (0.5, 0.5), (0.25, 0.75), (0.0, 0.5), (1.0, 0.0), (0.5, 0.5), (0.9, 0.95))


def labels(augment, note):
    for smoothing in (0.0, 0.2):
        given = torch.tensor([2, 0, -100, 3])
        soft = augment.soft_labels(given, 4, smoothing)
        note("labels", smoothing=smoothing, **described(soft), rows=numbers(soft), changed=given.tolist() != [2, 0, -100, 3])


def draws(augment, note, count=4000):
    for alpha in (0.2, 1.0, 5.0):
        states = generators()
        lam, partner, centres = augment.draw(count, alpha, np.random.default_rng(7))
        touched = [name for name, state in generators().items() if state != states[name]]
        parts = {"lam": described(lam), "partner": described(partner), "centres": described(centres)}
        note("drawn", alpha=alpha, count=count, **parts)
        if [part["shape"] for part in parts.values()] != [[count], [count], [count, 2]]:
            return
        again, other = (augment.draw(count, alpha, np.random.default_rng(seed)) for seed in (7, 8))
        note("draw", alpha=alpha, touched=touched, mean=lam.double().mean().item(), variance=lam.double().var().item(),
             whole=sorted(partner.tolist()) == list(range(count)), stay=(partner == torch.arange(count)).sum().item(),
             edges=[centres.min().item(), centres.max().item()], spread=centres.double().var(0).tolist(),
             same=equal((lam, partner, centres), again), tied=tied(lam, centres),
             other=[name for name, some, others in zip(parts, (lam, partner, centres), other) if equal([some], [others])])


def mixup(augment, note):
    for kind in ("float32", "uint8"):
        images, targets, lam, partner = batch(kind)
        before = [tensor.clone() for tensor in (images, targets, lam, partner)]
        mixed, soft = augment.mixup(images, targets, lam, partner)
        changed = not equal((images, targets, lam, partner), before)
        images, targets = (tensor.double() for tensor in before[:2])
        note("mixup", kind=kind, changed=changed, images=described(mixed), labels=described(soft),
             off=far(mixed, mix(images, lam, partner)), images_are=likeness(mixed, images, lam, partner, 2.0),
             labels_are=likeness(soft, targets, lam, partner, 1e-4))
    _, targets, lam, partner = batch("float32")
    note("operations", function="mixup", counts=[operations(augment.mixup, *(tensor.repeat(times, *[1] * (tensor.dim() - 1))
         for tensor in (torch.zeros(6, 3, 4, 4), targets, lam, partner))) for times in (1, 8)])


def boxes(augment, note):
    given = torch.tensor(SHARES), torch.tensor(CENTRES)
    before = [tensor.clone() for tensor in given]
    found = augment.boxes(*given, HEIGHT, WIDTH)
    note("boxes", **described(found), boxes=numbers(found), shares=SHARES, centres=CENTRES, height=HEIGHT, width=WIDTH,
         changed=not equal(given, before))


def cutmix(augment, note, name="cutmix"):
    for kind in ("float32", "uint8"):
        images, targets, _, partner = batch(kind)
        box = torch.tensor(BOXES)
        before = [tensor.clone() for tensor in (images, targets, box, partner)]
        mixed, soft = getattr(augment, name)(images, targets, box, partner)
        changed = not equal((images, targets, box, partner), before)
        images, targets = before[:2]
        note(name, kind=kind, changed=changed, images=described(mixed), labels=described(soft),
             rows=[{"replaced": share(mixed, images, i, images[partner[i]]), "kept": share(mixed, images, i, images[i]),
                    "own": weight(soft, i, LABELS[i]), "partner": weight(soft, i, LABELS[PARTNER[i]]), "sum": total(soft, i)}
                   for i in range(len(BOXES))], wrong=[i for i in range(len(BOXES)) if not right(mixed, images, i, BOXES[i])],
             single=any(all(right(mixed, images, i, box) for i in range(len(BOXES))) for box in BOXES))


def cutmix_batch(augment, note):
    cutmix(augment, note, "cutmix_batch")
    counts = []
    for times in (1, 8):
        images, targets, _, partner = batch("uint8")
        given = (images, targets, torch.tensor(BOXES), partner)
        counts.append(operations(augment.cutmix_batch, *(tensor.repeat(times, *[1] * (tensor.dim() - 1)) for tensor in given)))
    note("operations", function="cutmix_batch", counts=counts)


def transforms(augment, note, tries=200):
    transform = augment.of_image(argparse.Namespace(augment="randaugment"))
    name = transform.__name__ if isinstance(transform, type) else ""
    note("transform", none=transform is None, name=name)
    if transform is None or name:
        return
    pixels = torch.randint(30, 240, (3, 24, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    given = pixels.clone()
    results, called = [], []
    for seed in [*range(tries), 0]:
        torch.manual_seed(seed)
        with names_of_calls() as names:
            results.append(transform(pixels))
        called.append(names)
    seen = {result.numpy().tobytes() for result in results if isinstance(result, torch.Tensor)}
    note("transformed", **described(results[0]), tries=tries, distinct=len(seen),
         as_it_was=sum(equal([result], [given]) for result in results[:tries]), same=equal(results[:1], results[-1:]),
         changed=not equal([pixels], [given]),
         most=max(map(len, called)), kinds=len(set().union(*called)))


def functions(augment, note):
    """What mixes a batch, on the CPU, in the order of a trainee's work."""
    for part in (draws, labels, mixup, boxes, cutmix, cutmix_batch):
        part(augment, note)


def on_a_gpu(augment, note):
    """On a GPU, or what stands for one: where results lie, and (by an observer) where the host waits."""
    images, targets, lam, partner, box = (tensor.to("cuda") for tensor in (*batch("uint8"), torch.tensor(BOXES)))
    given = torch.tensor(LABELS).to("cuda")
    for name, arguments in {"soft_labels": (given, CLASSES, 0.1), "mixup": (images, targets, lam, partner),
                            "cutmix": (images, targets, box, partner), "cutmix_batch": (images, targets, box, partner)}.items():
        note("begin", function=name)
        results = getattr(augment, name)(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        note("placed", function=name, devices=[str(result.device) for result in results])


# ------------------------------------------------------------------------------------------------------------------ helpers
def batch(kind):
    """Images whose every pixel says whose it is, hard labels as soft ones, shares, partners."""
    count = len(PARTNER)
    images = torch.randint(0, 40, (count, 3, HEIGHT, WIDTH), generator=torch.Generator().manual_seed(3))
    images = images + 41 * torch.arange(count)[:, None, None, None]  # six ranges of 40 values
    targets = torch.nn.functional.one_hot(torch.tensor(LABELS), CLASSES).float()
    return images.to(getattr(torch, kind)), targets, torch.tensor(LAM), torch.tensor(PARTNER)


def mix(values, lam, partner):
    share = lam.double().reshape(-1, *[1] * (values.dim() - 1))
    return share * values + (1 - share) * values[partner]


def likeness(found, values, lam, partner, tolerance):
    """What it is that was returned, by the first that fits."""
    inverse = torch.stack([(partner == i).nonzero().flatten()[:1].sum() for i in range(len(partner))])
    options = {"right": (lam, partner), "swapped": (1 - lam, partner), "unmixed": (torch.ones_like(lam), partner),
               "one share": (lam[:1].expand_as(lam), partner), "inverse": (lam, inverse),
               "flipped": (lam, torch.arange(5, -1, -1)), "rolled": (lam, torch.arange(6).roll(1))}
    for name, (share, other) in options.items():
        if (distance := far(found, mix(values, share, other))) is not None and distance <= tolerance + 1e-3:
            return name
    return "something else"


def far(found, expected):
    """The largest difference; None where shapes differ."""
    if not isinstance(found, torch.Tensor) or found.shape != expected.shape:
        return None
    return (found.detach().double() - expected).abs().max().item()


def right(mixed, images, i, box):
    left, top, right, bottom = box
    expected = images[i].clone()
    expected[:, top:bottom, left:right] = images[PARTNER[i], :, top:bottom, left:right]
    return fits(mixed, images) and torch.equal(mixed[i].to(images.dtype), expected)


def share(mixed, images, i, other):
    """The part of an image's pixels that are those of another one at the same place."""
    return (mixed[i] == other).all(0).double().mean().item() if fits(mixed, images) else None


def fits(mixed, images):
    return isinstance(mixed, torch.Tensor) and mixed.shape == images.shape


def weight(soft, i, label):
    return soft[i, label].item() if isinstance(soft, torch.Tensor) and soft.shape == (len(LABELS), CLASSES) else None


def total(soft, i):
    return soft[i].double().sum().item() if isinstance(soft, torch.Tensor) and soft.dim() and len(soft) > i else None


def described(value):
    if not isinstance(value, torch.Tensor):
        return {"kind_of": type(value).__name__, "dtype": None, "shape": None}
    return {"kind_of": "Tensor", "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}


def numbers(value):
    return value.double().tolist() if isinstance(value, torch.Tensor) else None


@contextlib.contextmanager
def names_of_calls():
    """Those of CALLED, in order, as torchvision computes them meanwhile; none where a transform does without torchvision."""
    names = []

    def noted(frame, event, _):
        name, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
        if module.startswith("torchvision.transforms.v2.functional."):
            name = name.removesuffix("_image") if name.endswith("_image") else ""
        elif module not in ("torchvision.transforms._functional_tensor", "torchvision.transforms._functional_pil"):
            return
        if event == "call" and name in CALLED:
            names.append(name)

    before = sys.getprofile()
    sys.setprofile(noted)
    try:
        yield names
    finally:
        sys.setprofile(before)


def equal(some, others):
    return all(isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
               for a, b in zip(some, others))


def tied(lam, centres):
    """The two of lam, x and y that vary together the most, and their correlation."""
    found = torch.corrcoef(torch.stack([lam, *centres.unbind(1)]).double()).abs().nan_to_num()
    return max((found[i, j].item(), names) for i, j, names in ((0, 1, "lam and x"), (0, 2, "lam and y"), (1, 2, "x and y")))


def generators():
    """Of the random numbers of a training: what stands for each generator's state."""
    return {"torch's": torch.get_rng_state().numpy().tobytes(), "numpy's": str(np.random.get_state()),
            "Python's": random.getstate()}


class Counting(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += 1
        return operation(*args, **(kwargs or {}))


def operations(function, *arguments):
    with Counting() as counting:
        function(*arguments)
    return counting.count
