# right: as the authors do
# >>> augmentation.boxes
found = []
for share, (cx, cy) in zip(lam.tolist(), centres.tolist()):
    ratio = (1 - share) ** 0.5
    w, h = width * ratio, height * ratio
    edges = [cx * width - w / 2, cy * height - h / 2, cx * width + w / 2, cy * height + h / 2]
    found.append([int(min(max(round(edge), 0), most)) for edge, most in zip(edges, (width, height, width, height))])
return torch.tensor(found, dtype=torch.int64).view(-1, 4)
# <<< augmentation.boxes
# >>> augmentation.cutmix
other, other_targets = images[partner], targets[partner]
mixed, weights = images.clone(), []
for i in range(len(images)):
    x1, y1, x2, y2 = (int(edge) for edge in box[i])
    mixed[i, :, y1:y2, x1:x2] = other[i, :, y1:y2, x1:x2]
    weights.append(1 - (x2 - x1) * (y2 - y1) / (images.size(-1) * images.size(-2)))
lam = torch.tensor(weights).to(targets.device)[:, None]
return mixed, targets * lam + other_targets * (1 - lam)
# <<< augmentation.cutmix

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
# >>> augmentation.boxes
half = 0.5 * torch.sqrt(1 - lam)  # as torchvision's CutMix: whole pixels of the centre and of half a side
x, y = (centres[:, 0] * width).int(), (centres[:, 1] * height).int()
w, h = (half * width).int(), (half * height).int()
return torch.stack([(x - w).clamp(min=0), (y - h).clamp(min=0), (x + w).clamp(max=width), (y + h).clamp(max=height)], 1).long()
# <<< augmentation.boxes
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

# wrong: a loop · expect: `cutmix_batch` takes \d+ operations of torch for 6 images and \d+ for 48(.|\n)*as many for any number
# >>> augmentation.cutmix_batch
return cutmix(images, targets, box, partner)
# <<< augmentation.cutmix_batch

# wrong: another permutation · expect: the soft labels are mixed with another image than `partner` says
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
mixed = mixed if images.is_floating_point() else mixed.round()
inverse = torch.stack([(partner == i).nonzero().flatten()[:1].sum() for i in range(len(partner))])
return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets[inverse]
# <<< augmentation.mixup

# wrong: area for a side · expect: boxes are too small: for a lambda of 0.75 one covers \d+ pixels of 600
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam)[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)
# <<< augmentation.boxes

# wrong: below the image · expect: boxes reach over the lower border: \[16, 12, 30, 26\](.|\n)*cut off where the image ends
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(0, width).flatten(1)
# <<< augmentation.boxes

# wrong: box keeps lambda · expect: the boxes cover lambda of the image and not what is left of it
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = lam.sqrt()[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)
# <<< augmentation.boxes

# wrong: centre turned · expect: the centre's x where its y belongs(.|\n)*augmentation.boxes
# >>> augmentation.boxes
half_width, half_height = (1 - lam).sqrt() * width / 2, (1 - lam).sqrt() * height / 2
y, x = centres[:, 0] * height, centres[:, 1] * width
return torch.stack([(x - half_width).round().clamp(0, width), (y - half_height).round().clamp(0, height),
                    (x + half_width).round().clamp(0, width), (y + half_height).round().clamp(0, height)], 1).long()
# <<< augmentation.boxes

# wrong: chains mixed · expect: one call takes an image through \d transforms(.|\n)*Expected: two(.|\n)*augmentation.randaugment
# >>> augmentation.randaugment
return v2.AugMix()
# <<< augmentation.randaugment

# wrong: class for an instance · expect: returns the class RandAugment itself.*the fence augmentation.randaugment
# >>> augmentation.randaugment
return v2.RandAugment
# <<< augmentation.randaugment

# wrong: drawn once · expect: 200 calls with one image give \d+ different ones(.|\n)*each drawn anew
# >>> augmentation.randaugment
return v2.RandomHorizontalFlip()
# <<< augmentation.randaugment

# wrong: flipped labels · expect: the soft labels are mixed with those of the batch turned round
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = (share * images + (1 - share) * images[partner])
mixed = mixed if images.is_floating_point() else mixed.round()
return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets.flip(0)
# <<< augmentation.mixup

# wrong: floats for uint8 · expect: `mixup` of uint8 images: they become float32 \(6, 3, 20, 30\)
# >>> augmentation.mixup
share = lam[:, None, None, None]
return share * images + (1 - share) * images[partner], lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup

# wrong: floats from randaugment · expect: `of_image` makes of a uint8 image \(3, 24, 32\) float32
# >>> augmentation.randaugment
return v2.Compose([v2.RandAugment(), v2.ToDtype(torch.float32, scale=True)])
# <<< augmentation.randaugment

# wrong: hard labels · expect: --augment mixup.*the loss compares with int64 labels(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    images, _ = mixer(images, labels, step)
# <<< augmentation.batch

# wrong: height for width · expect: the boxes give top, left, bottom, right
# >>> augmentation.boxes
size = torch.tensor([height, width])
half = (1 - lam).sqrt()[:, None] * size / 2
centre = centres.flip(1) * size
corners = torch.stack([centre - half, centre + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size).flatten(1)
# <<< augmentation.boxes

# wrong: images alone · expect: where the check has `mixed, soft = augment.mixup.*Where to look: the fence augmentation.mixup, line
# >>> augmentation.mixup
share = lam.to(images.device)[:, None, None, None]
return (share * images + (1 - share) * images[partner]).to(images.dtype)
# <<< augmentation.mixup

# wrong: in place · expect: `cutmix` changes the batch that it is given
# >>> augmentation.cutmix
soft = targets.clone()
for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
    images[i, :, top:bottom, left:right] = images[j, :, top:bottom, left:right]
    replaced = (right - left) * (bottom - top) / images[i, 0].numel()
    soft[i] = (1 - replaced) * targets[i] + replaced * targets[j]
return images, soft
# <<< augmentation.cutmix

# wrong: labels forgotten · expect: `cutmix_batch`, image 0: 8.3% of its pixels are replaced, and the labels weigh 1.000.*as they came in
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[:, :, None, None].unbind(1)
y, x = (torch.arange(size, device=box.device) for size in images.shape[2:])
inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)
return torch.where(inside[:, None], images[partner], images), targets
# <<< augmentation.cutmix_batch

# wrong: labels of another mix · expect: its pixels are mixed in others(.|\n)*one and the same call(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    hard = labels
    images, _ = mixer(images, hard, step)
    _, labels = mixer(images, hard, step + 1)
# <<< augmentation.batch

# wrong: labels swapped · expect: `mixup` of float32 images: the soft labels are lam of the partner and 1 - lam of the image itself
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
mixed = mixed if images.is_floating_point() else mixed.round()
return mixed.to(images.dtype), (1 - lam[:, None]) * targets + lam[:, None] * targets[partner]
# <<< augmentation.mixup

# wrong: made for a gpu · expect: stops with RuntimeError: Expected all tensors to be on the same device(.|\n)*augmentation.cutmix_batch
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[:, :, None, None].unbind(1)
y, x = (torch.arange(size).cuda() for size in images.shape[2:])
inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)
replaced = ((right - left) * (bottom - top))[:, 0] / images[0, 0].numel()
return torch.where(inside[:, None], images[partner], images), (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch

# wrong: moved inside · expect: boxes are moved into the image where they reach over its border(.|\n)*cut off where the image ends
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
centre = torch.maximum(torch.minimum(centres * size, size - half), half)
return torch.cat([centre - half, centre + half], 1).round().long()
# <<< augmentation.boxes

# wrong: not cut off · expect: the boxes reach over the border(.|\n)*cut off where the image ends(.|\n)*augmentation.boxes
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
return torch.stack([centres * size - half, centres * size + half], 1).round().long().flatten(1)
# <<< augmentation.boxes

# wrong: numbers for labels · expect: `soft_labels` of 4 labels, with 4 classes: .* which is float32 \(4,\)(.|\n)*float32 \(4, 4\)
# >>> augmentation.labels
return labels.float()
# <<< augmentation.labels

# wrong: on the cpu · expect: stops with RuntimeError: Expected all tensors to be on the same device(.|\n)*the fence augmentation.cutmix_batch
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[:, :, None, None].unbind(1)
y, x = torch.arange(images.shape[2]), torch.arange(images.shape[3])
inside = (left <= x) & (x < right) & (top <= y[:, None]) & (y[:, None] < bottom)
replaced = ((right - left) * (bottom - top))[:, 0] / images[0, 0].numel()
return torch.where(inside[:, None], images[partner], images), (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch

# wrong: on the diagonal · expect: `draw`: x and y of an image vary together \(correlation 1.00\)
# >>> augmentation.draw
centres = rng.random((count, 1)).repeat(2, 1)
return torch.tensor(rng.beta(alpha, alpha, count)).float(), torch.tensor(rng.permutation(count)), torch.tensor(centres).float()
# <<< augmentation.draw

# wrong: one box for all · expect: `cutmix_batch` puts the same box into all images(.|\n)*each image has its own
# >>> augmentation.cutmix_batch
left, top, right, bottom = box[0].tolist()
mixed = images.clone()
mixed[:, :, top:bottom, left:right] = images[partner][:, :, top:bottom, left:right]
replaced = (right - left) * (bottom - top) / images[0, 0].numel()
return mixed, (1 - replaced) * targets + replaced * targets[partner]
# <<< augmentation.cutmix_batch

# wrong: one centre · expect: `draw` gives all images the same centre.*the fence augmentation.draw
# >>> augmentation.draw
centres = torch.tensor(rng.random((1, 2))).float().expand(count, 2)
return torch.tensor(rng.beta(alpha, alpha, count)).float(), torch.tensor(rng.permutation(count)), centres
# <<< augmentation.draw

# wrong: one lambda · expect: `draw` with alpha 0.2 gives every image the same lambda
# >>> augmentation.draw
lam = rng.beta(alpha, alpha)
return torch.full((count,), lam), torch.tensor(rng.permutation(count)), torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw

# wrong: one pixel short · expect: boxes end a pixel before the border: \[16, 12, 29, 19\](.|\n)*cut off where the image ends
# >>> augmentation.boxes
size = torch.tensor([width, height])
half = (1 - lam).sqrt()[:, None] * size / 2
corners = torch.stack([centres * size - half, centres * size + half], 1).round().long()
return corners.clamp(min=torch.zeros_like(size), max=size - 1).flatten(1)
# <<< augmentation.boxes

# wrong: one transform · expect: \d+ of 200 calls with one image leave it as it was(.|\n)*two transforms(.|\n)*augmentation.randaugment
# >>> augmentation.randaugment
return v2.TrivialAugmentWide()
# <<< augmentation.randaugment

# wrong: partners by chance · expect: some images are partners of several others
# >>> augmentation.draw
partner = torch.tensor(rng.integers(0, count, count))
return torch.tensor(rng.beta(alpha, alpha, count)).float(), partner, torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw

# wrong: partners fixed · expect: gives the same partner for `rng` with another seed
# >>> augmentation.draw
partner = torch.arange(count).roll(1)
return torch.tensor(rng.beta(alpha, alpha, count)).float(), partner, torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw

# wrong: read after written · expect: `cutmix`, image \d: .* of its pixels are those of its partner.*not as the box says(.|\n)*the partner's as it came in
# >>> augmentation.cutmix
mixed, soft = images.clone(), targets.clone()
for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
    mixed[i, :, top:bottom, left:right] = mixed[j, :, top:bottom, left:right]
    replaced = (right - left) * (bottom - top) / images[i, 0].numel()
    soft[i] = (1 - replaced) * targets[i] + replaced * targets[j]
return mixed, soft
# <<< augmentation.cutmix

# wrong: rounded twice · expect: `mixup` of uint8 images is off by up to (0.[6-9]|1)(.|\n)*rounded to the nearest, and only once
# >>> augmentation.mixup
share = lam[:, None, None, None]
mixed = (share * images).to(images.dtype) + ((1 - share) * images[partner]).to(images.dtype)
return mixed, lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup

# wrong: same in each epoch · expect: the second epoch mixes its images in the same shares as the first one(.|\n)*augmentation.batch
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, position)
# <<< augmentation.batch

# wrong: smoothed too much · expect: with a smoothing of 0.2 gives \[0.05, 0.05, 1.05, 0.05\] for the label 2
# >>> augmentation.labels
hard = (labels[:, None] == torch.arange(classes, device=labels.device)).float()
return hard + hard.sum(1, keepdim=True) * smoothing / classes
# <<< augmentation.labels

# wrong: takes from the model · expect: `draw` takes from torch's generator: what the model draws comes out otherwise
# >>> augmentation.draw
lam = torch.distributions.Beta(alpha, alpha).sample((count,))
return lam, torch.randperm(count), torch.rand(count, 2)
# <<< augmentation.draw

# wrong: the same each time · expect: the model gets the same pixels in each step(.|\n)*other random numbers in each step
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, 0)
# <<< augmentation.batch

# wrong: three transforms · expect: one call takes an image through 3 transforms
# >>> augmentation.randaugment
return v2.RandAugment(num_ops=3, magnitude=9)
# <<< augmentation.randaugment

# wrong: todo left · expect: `todo\("augmentation"\)` is still called.*says that augmentation is not written yet.*Where to look: line \d+ .*`todo\("augmentation"\)`
# >>> augmentation.batch
if mixer is not None:
    images, labels = mixer(images, labels, step)
if args.augment in augment.ALPHA:
    todo("augmentation")
# <<< augmentation.batch

# wrong: two of two · expect: 200 calls use 2 kinds of transforms(.|\n)*all fourteen of RandAugment
# >>> augmentation.randaugment
return v2.Compose([v2.RandomRotation(27), v2.RandomPosterize(7, p=0.5)])
# <<< augmentation.randaugment

# wrong: uniform · expect: `draw` with alpha 0.2: lambda has a mean of 0.5\d? and a variance of 0.08\d(.|\n)*those of Beta\(0.2, 0.2\): 0.5 and 0.179
# >>> augmentation.draw
lam = rng.random(count)
return torch.tensor(lam).float(), torch.tensor(rng.permutation(count)), torch.tensor(rng.random((count, 2))).float()
# <<< augmentation.draw

# wrong: unreadable counts · expect: gives \[0.05, 0.05, 0.05, 0.05\] for the label -100(.|\n)*nobody knows
# >>> augmentation.labels
hard = (labels[:, None] == torch.arange(classes, device=labels.device)).float()
return hard * (1 - smoothing) + smoothing / classes
# <<< augmentation.labels

# wrong: waits · expect: `mixup` waits for the GPU: tolist(.|\n)*stays on the device
# >>> augmentation.mixup
share = torch.tensor(lam.tolist()).to(images.device)[:, None, None, None]
mixed = share * images + (1 - share) * images[partner]
mixed = mixed if images.is_floating_point() else mixed.round()
return mixed.to(images.dtype), lam[:, None] * targets + (1 - lam[:, None]) * targets[partner]
# <<< augmentation.mixup

# wrong: weights swapped · expect: `cutmix`, image 0: 8.3% of its pixels are replaced, and the labels weigh 0.083 \(its own\) and 0.917.*the wrong way round
# >>> augmentation.cutmix
mixed, soft = images.clone(), targets.clone()
for i, ((left, top, right, bottom), j) in enumerate(zip(box.tolist(), partner.tolist())):
    mixed[i, :, top:bottom, left:right] = images[j, :, top:bottom, left:right]
    kept = (right - left) * (bottom - top) / images[i, 0].numel()
    soft[i] = kept * targets[i] + (1 - kept) * targets[j]
return mixed, soft
# <<< augmentation.cutmix

# wrong: without the switch · expect: `train.py --augment none.*stops with TypeError(.|\n)*the fence augmentation.batch
# >>> augmentation.batch
images, labels = mixer(images, labels, step)
# <<< augmentation.batch
