"""Learn to tell ten shapes apart, from an archive of small images. A case of the hunt: what makes it slow?

    python hunt/slow_shapes.py --profile           # a few steps of it are traced: trace.json.gz in the run's folder
    python hunt/slow_shapes.py --help
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dlojz.labs.profiler_hunt import bench

SHAPES, SIZE = 10, 16


# >>> profiler_hunt.shapes: a data set in an archive
class Shapes(Dataset):
    """``[i]``: an image, uint8 (1, SIZE, SIZE), and the number of its shape, out of a compressed archive."""

    def __init__(self, path):
        with np.load(path) as archive:
            self.images, self.labels = torch.from_numpy(archive["images"]), archive["labels"].tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]
# <<< profiler_hunt.shapes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.tell = nn.Linear(32 * (SIZE // 4) ** 2, SHAPES)

    def forward(self, images):
        return self.tell(self.look(images.float() / 255).flatten(1))


def archive(path, count=512):
    """Draws ``count`` noisy images of SHAPES random shapes and packs them."""
    draw = np.random.default_rng(0)
    shapes, labels = draw.integers(0, 200, (SHAPES, 1, SIZE, SIZE)), draw.integers(0, SHAPES, count)
    images = shapes[labels] + draw.integers(0, 56, (count, 1, SIZE, SIZE))
    np.savez_compressed(path, images=images.astype(np.uint8), labels=labels)
    return path


def train(run):
    torch.manual_seed(run.args.seed)
    order = torch.Generator().manual_seed(run.args.seed)
    images = Shapes(archive(run.folder / "shapes.npz"))
    loader = DataLoader(images, run.args.batch_size, shuffle=True, drop_last=True, generator=order)
    net = Net().to(run.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    run.started(net)
    for images, labels in run.steps(loader):
        images, labels = images.to(run.device), labels.to(run.device)
        run.forward()
        outputs = net(images)
        loss = nn.functional.cross_entropy(outputs, labels)
        run.backward()
        loss.backward()
        run.update()
        optimizer.step()
        optimizer.zero_grad()
        run.add(loss, (outputs.argmax(1) == labels).sum(), len(labels))


if __name__ == "__main__":
    bench.main(train, __doc__)
