# right: by other ways
# >>> augmentation.randaugment
from torchvision import transforms

return transforms.RandAugment(num_ops=2, magnitude=10, fill=[124, 116, 104])
# <<< augmentation.randaugment
# >>> augmentation.draw
other = torch.Generator().manual_seed(int(rng.integers(2**62)))
lam = torch.from_numpy(rng.dirichlet([alpha, alpha], count)[:, 0].astype("float32"))
return lam, torch.randperm(count, generator=other), torch.rand(count, 2, generator=other)
# <<< augmentation.draw
# >>> augmentation.labels
table = torch.full((classes + 1, classes), smoothing / classes, device=labels.device)
table[:classes] += (1 - smoothing) * torch.eye(classes, device=labels.device)
table[classes] = 0
return table[torch.where(labels < 0, classes, labels)]
# <<< augmentation.labels
# >>> augmentation.mixup
both = torch.stack([images.float(), images[partner].float()])
mixed = torch.einsum("kb,kbchw->bchw", torch.stack([lam, 1 - lam]), both)
mixed = mixed if images.is_floating_point() else mixed.round_()
return mixed.type_as(images), targets[partner] + lam.unsqueeze(1) * (targets - targets[partner])
# <<< augmentation.mixup
# >>> augmentation.cutmix_batch
height, width = images.shape[2:]
x, y = torch.arange(width, device=box.device), torch.arange(height, device=box.device)
across, down = (x >= box[:, 0, None]) ^ (x >= box[:, 2, None]), (y >= box[:, 1, None]) ^ (y >= box[:, 3, None])
inside = torch.einsum("by,bx->byx", down.float(), across.float()).bool()[:, None]
replaced = (across.sum(1) * down.sum(1) / (height * width)).unsqueeze(1)
return torch.where(inside, images[partner], images), torch.lerp(targets, targets[partner], replaced)
# <<< augmentation.cutmix_batch

# right: fourteen classes
# >>> augmentation.randaugment
one = v2.RandomChoice([
    v2.Identity(), v2.RandomAffine(0, shear=(5, 5, 0, 0)), v2.RandomAffine(0, shear=(0, 0, 5, 5)),
    v2.RandomAffine(0, translate=(0.1, 0)), v2.RandomAffine(0, translate=(0, 0.1)), v2.RandomRotation(9),
    v2.ColorJitter(brightness=(0.7, 0.71)), v2.ColorJitter(saturation=(0.7, 0.71)), v2.ColorJitter(contrast=(0.7, 0.71)),
    v2.RandomAdjustSharpness(1.3, p=1), v2.RandomPosterize(7, p=1), v2.RandomSolarize(178, p=1), v2.RandomAutocontrast(p=1),
    v2.RandomEqualize(p=1)])
return v2.Compose([one, one])
# <<< augmentation.randaugment

# right: lerp and scatter
# >>> augmentation.labels
known = (labels >= 0).float()[:, None]
rows = torch.full((len(labels), classes), smoothing / classes, device=labels.device) * known
return rows.scatter_add(1, labels.clamp(min=0)[:, None], known * (1 - smoothing))
# <<< augmentation.labels
# >>> augmentation.mixup
mixed = torch.lerp(images[partner].float(), images.float(), lam.view(-1, 1, 1, 1))
if images.dtype == torch.uint8:
    mixed = mixed.add(0.5).floor()
return mixed.to(images.dtype), torch.lerp(targets[partner], targets, lam.unsqueeze(1))
# <<< augmentation.mixup

# right: a number from all pixels
# >>> augmentation.loader
images = torch.stack([image for image, _ in samples])
labels = torch.tensor([int(label) for _, label in samples])
return self(images, labels, int(images.long().sum()))
# <<< augmentation.loader

# right: masks as products
# >>> augmentation.cutmix_batch
height, width = images.shape[-2:]
columns = torch.arange(width, device=images.device).expand(len(images), -1)
rows = torch.arange(height, device=images.device).expand(len(images), -1)
across = (columns >= box[:, 0:1]) & (columns < box[:, 2:3])
down = (rows >= box[:, 1:2]) & (rows < box[:, 3:4])
mask = (down[:, :, None] & across[:, None, :]).unsqueeze(1)
lam = 1 - mask.flatten(1).float().mean(1, keepdim=True)
return images.masked_fill(mask, 0) + images[partner].masked_fill(~mask, 0), lam * targets + (1 - lam) * targets[partner]
# <<< augmentation.cutmix_batch
# >>> augmentation.batch
if mixer:
    mixed = mixer(images, labels, at=step)
    images, labels = mixed
# <<< augmentation.batch

# right: one hot
# >>> augmentation.labels
hard = torch.nn.functional.one_hot(labels.clamp(min=0), classes).float() * (labels >= 0)[:, None]
return hard * (1 - smoothing) + hard.sum(1, keepdim=True) * smoothing / classes
# <<< augmentation.labels

# right: two gammas
# >>> augmentation.randaugment
augmentation = v2.RandAugment(2, 9, interpolation=v2.InterpolationMode.BILINEAR)


def transform(image):
    return augmentation(image)


return transform
# <<< augmentation.randaugment
# >>> augmentation.draw
one, other = rng.gamma(alpha, size=count), rng.gamma(alpha, size=count)
lam = torch.from_numpy(one / (one + other)).to(torch.float32)
partner = torch.from_numpy(rng.random(count).argsort())
return lam, partner, torch.from_numpy(rng.random((count, 2), dtype="float32"))
# <<< augmentation.draw

# wrong: a loop · expect: `cutmix_batch`, 6 uint8 images on the GPU: the host waits for the GPU(.|\n)*stays there(.|\n)*augmentation.cutmix_batch
# >>> augmentation.cutmix_batch
return cutmix(images, targets, box, partner)
# <<< augmentation.cutmix_batch

# wrong: in place · expect: `cutmix_batch`, 2 float32 images: argument 1 is changed(.|\n)*stays as it is(.|\n)*augmentation.cutmix_batch
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[:, :, None, None].unbind(1)
y, x = (torch.arange(size, device=box.device) for size in images.shape[2:])
inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)
replaced = ((right - left) * (bottom - top))[:, 0] / images[0, 0].numel()
images.copy_(torch.where(inside[:, None], images[partner], images))
return images, (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch

# wrong: one mask for all · expect: `cutmix_batch`, \d \w+ images: (.|\n)*augmentation.cutmix_batch
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[0].tolist()
mixed = images.clone()
mixed[:, :, top:bottom, left:right] = images[partner, :, top:bottom, left:right]
replaced = (right - left) * (bottom - top) / images[0, 0].numel()
return mixed, (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch

# wrong: not mixed in the loader · expect: --augment mixup-cpu.*labels that are int64(.|\n)*soft labels of the mixed images(.|\n)*augmentation.loader
# >>> augmentation.loader
return default_collate(samples)
# <<< augmentation.loader

# wrong: one number for all batches · expect: --augment mixup-cpu.*several batches are mixed in the same shares(.|\n)*augmentation.loader
# >>> augmentation.loader
images, labels = default_collate(samples)
return self(images, labels, len(samples))
# <<< augmentation.loader

# wrong: floats for uint8 · expect: `mixup`, 6 uint8 images: the batch of images is float32(.|\n)*uint8(.|\n)*augmentation.mixup
# >>> augmentation.mixup
share = lam[:, None, None, None]
return share * images + (1 - share) * images[partner], lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup

# wrong: hard labels · expect: --augment mixup.*labels that are int64(.|\n)*soft labels of the mixed images(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    images, _ = mixer(images, labels, step)
# <<< augmentation.batch

# wrong: labels of another mix · expect: its pixels other ones(.|\n)*one and the same call(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    hard = labels
    images, _ = mixer(images, hard, step)
    _, labels = mixer(images, hard, step + 1)
# <<< augmentation.batch

# wrong: one lambda · expect: `draw`, alpha 0.2: lambda is the same for all images(.|\n)*augmentation.draw
# >>> augmentation.draw
lam = rng.beta(alpha, alpha)
return torch.full((count,), lam), torch.tensor(rng.permutation(count)), torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw

# wrong: one transform · expect: results without a change is \d+(.|\n)*two transforms(.|\n)*augmentation.randaugment
# >>> augmentation.randaugment
return v2.TrivialAugmentWide()
# <<< augmentation.randaugment

# wrong: partners by chance · expect: some images are partners of several others(.|\n)*a permutation(.|\n)*augmentation.draw
# >>> augmentation.draw
partner = torch.tensor(rng.integers(0, count, count))
return torch.tensor(rng.beta(alpha, alpha, count)).float(), partner, torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw

# wrong: same in each epoch · expect: several batches are mixed in the same shares(.|\n)*in a later epoch(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, position)
# <<< augmentation.batch

# wrong: takes from the model · expect: not rng alone, but also torch's generator(.|\n)*augmentation.draw
# >>> augmentation.draw
lam = torch.distributions.Beta(alpha, alpha).sample((count,))
return lam, torch.randperm(count), torch.rand(count, 2)
# <<< augmentation.draw

# wrong: unreadable counts · expect: `soft_labels`, label -100.*\[\[0.05, 0.05, 0.05, 0.05\]\](.|\n)*could not be read(.|\n)*augmentation.labels
# >>> augmentation.labels
hard = (labels[:, None] == torch.arange(classes, device=labels.device)).float()
return hard * (1 - smoothing) + smoothing / classes
# <<< augmentation.labels

# wrong: floats rounded too · expect: `mixup`, 2 float32 images: the batch of images is [01] at .*only integers(.|\n)*augmentation.mixup
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
return mixed.round().to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup

# wrong: seeds the model · expect: random numbers begin again, from the seed \d+(.|\n)*the fence augmentation.loader
# >>> augmentation.loader
images, labels = default_collate(samples)
torch.manual_seed(int(images.sum()))
return self(images, labels, int(images.sum()))
# <<< augmentation.loader
