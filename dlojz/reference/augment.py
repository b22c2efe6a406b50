"""Data augmentation by name, as train.py's --augment calls it: other images from those that there are.

    none           each image as the loader gives it (cropped and mirrored at random)
    randaugment    a few random transforms of each image, in the loader
    mixup-cpu      each image mixed with another one of its batch, in the loader
    mixup          the same on the device
    cutmix-loop    a box of each image filled from another one, on the device, image by image
    cutmix         the same for the whole batch at once

Images are uint8 (B, 3, H, W), or floats. Soft labels are float32 (B, classes): the share of an image that each class has.
No function changes what it is given.
"""

import zlib

import numpy as np
import torch
from torch.utils.data import default_collate
from torchvision.transforms import v2

from dlojz import data, todo  # noqa: F401

NAMES = ["none", "randaugment", "mixup-cpu", "mixup", "cutmix-loop", "cutmix"]
ALPHA = {"mixup-cpu": 0.2, "mixup": 0.2, "cutmix-loop": 1.0, "cutmix": 1.0}  # as their authors took it for ImageNet


def of_image(args):
    """What --augment does to one image, uint8 (3, H, W), in the loader; None if nothing.

    RandAugment (Cubuk et al. 2019, arXiv:1909.13719) draws from torch's default generator: the data set seeds it for each image.
    """
    if args.augment != "randaugment":
        return None
    # >>> augmentation.randaugment: two transforms out of fourteen, drawn anew for each image
    return v2.RandAugment(num_ops=2, magnitude=9)
    # <<< augmentation.randaugment


def in_loader(args, classes, rank):
    """What --augment does in the loader with a list of (image, label), for ``DataLoader(collate_fn=…)``; None if nothing."""
    return Mixer(args, classes, rank).collate if args.augment == "mixup-cpu" else None


def on_device(args, classes, rank):
    """What --augment does to a batch on the device: ``images, labels = mixer(images, labels, step)``; None if nothing."""
    return Mixer(args, classes, rank) if args.augment in ("mixup", "cutmix-loop", "cutmix") else None


def shrunk(images, args, step, total_steps):
    """With --progressive, float images (B, 3, H, W), resized on the device: a quarter of the steps at 1/2 of --image-size, one at
    2/3 and one at 5/6 (in multiples of 8 pixels), the last at full size. ``step``: how many are done. A network of
    convolutions that ends in a mean takes any size (Howard 2018, fast.ai/posts/2018-08-10-fastai-diu-imagenet.html)."""
    part = min(3, 4 * step // total_steps)
    size = 8 * max(1, round(args.image_size * (3 + part) / 6 / 8))
    if not args.progressive or part == 3:
        return images
    return torch.nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)


class Mixer:
    """Mixes each image of a batch with another one of it, and their labels in the same shares.

    Its random numbers are its own, so that those of the model (dropout, …) stay as they are. They follow from the seed, the rank
    and ``at``, a number that no other batch has: any worker mixes a batch in the same way, and so does a resumed run.
    """

    def __init__(self, args, classes, rank):
        self.name, self.classes, self.smoothing, self.seed = args.augment, classes, args.label_smoothing, (args.seed, rank)
        self.alpha = ALPHA[self.name] if args.alpha is None else args.alpha

    def __call__(self, images, labels, at):
        lam, partner, centres = draw(len(images), self.alpha, np.random.default_rng((*self.seed, at)))
        how, shares = mixup, lam
        if self.name.startswith("cutmix"):
            how, shares = cutmix if self.name == "cutmix-loop" else cutmix_batch, boxes(lam, centres, *images.shape[2:])
        shares, partner = (few.to(images.device, non_blocking=True) for few in (shares, partner))  # without a wait for the device
        alone = (labels < 0) | (labels[partner] < 0)  # an image that could not be read is mixed with none
        partner = torch.where(alone, torch.arange(len(images), device=images.device), partner)
        return how(images, soft_labels(labels, self.classes, self.smoothing), shares, partner)

    def collate(self, samples):
        """A batch of the loader's samples, (image, label) each, mixed by the worker that makes it. It does not know the step:
        the number comes from the pixels, which a random crop makes unique."""
        # >>> augmentation.loader: mix where the batch is made
        images, labels = default_collate(samples)
        return self(images, labels, zlib.crc32(images[0].numpy()))
        # <<< augmentation.loader


def draw(count, alpha, rng):
    """For ``count`` images, from a numpy Generator: the share that each keeps, lam, float32 (B,), from Beta(alpha, alpha); whom
    it is mixed with, partner, int64 (B,), a permutation; and centres of boxes, float32 (B, 2), x and y from 0 to 1."""
    # >>> augmentation.draw: from rng and nothing else
    lam = rng.beta(alpha, alpha, count)
    centres = rng.random((count, 2))
    return torch.tensor(lam).float(), torch.tensor(rng.permutation(count)), torch.tensor(centres).float()
    # <<< augmentation.draw


def soft_labels(labels, classes, smoothing=0.0):
    """int64 (B,) -> float32 (B, classes): 1 - smoothing for the image's class, and smoothing split evenly over all classes.

    A label below 0 (an image that could not be read) gives a row of zeros, which adds nothing to the loss.
    """
    # >>> augmentation.labels: a row for each image
    hard = (labels[:, None] == torch.arange(classes, device=labels.device)).float()
    return hard * (1 - smoothing) + hard.sum(1, keepdim=True) * smoothing / classes
    # <<< augmentation.labels


def mixup(images, targets, lam, partner):
    """lam x image + (1 - lam) x partner, for images and soft labels (Zhang et al. 2017, arXiv:1710.09412); uint8 is rounded.

    ``lam`` float32 (B,), ``partner`` int64 (B,). The authors draw one lambda for a batch; here each image has its own.
    """
    # >>> augmentation.mixup: both in the same shares, images in the type that they had
    share = lam[:, None, None, None]
    mixed = share * images + (1 - share) * images[partner]
    mixed = mixed if images.is_floating_point() else mixed.round()
    return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
    # <<< augmentation.mixup


def boxes(lam, centres, height, width):
    """A box for each image: int64 (B, 4), left, top, right, bottom in pixels; right and bottom are the first ones outside.

    It has the image's proportions and 1 - lam of its area, and ends where the image does (Yun et al. 2019, arXiv:1905.04899).
    """
    size = torch.tensor([width, height])
    half = (1 - lam).sqrt()[:, None] * size / 2
    corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
    return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)


def cutmix(images, targets, box, partner):
    """Each image with its box from its partner, image by image; labels by the area that was really replaced. ``box`` (B, 4) as
    from `boxes`."""
    mixed, soft = images.clone(), targets.clone()
    for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
        mixed[i, :, top:bottom, left:right] = images[j, :, top:bottom, left:right]
        replaced = (right - left) * (bottom - top) / images[i, 0].numel()
        soft[i] = (1 - replaced) * targets[i] + replaced * targets[j]
    return mixed, soft


def cutmix_batch(images, targets, box, partner):
    """The same as `cutmix`, in as many operations for 512 images as for two."""
    # >>> augmentation.cutmix_batch: a mask says which pixels lie in their image's box
    left, top, right, bottom = box[:, :, None, None].unbind(1)  # each (B, 1, 1)
    y, x = (torch.arange(size, device=box.device) for size in images.shape[2:])
    inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)  # (B, H, W)
    replaced = ((right - left) * (bottom - top))[:, 0] / images[0, 0].numel()
    return torch.where(inside[:, None], images[partner], images), (1 - replaced) * targets + replaced * targets[partner]
    # <<< augmentation.cutmix_batch


def dominating(labels):
    """The class that accuracy counts, int64 (B,): a label itself, or the one with the largest share; -100 in a row of zeros."""
    if labels.dim() == 1:
        return labels
    share, label = labels.max(1)
    return torch.where(share > 0, label, data.UNREADABLE)
