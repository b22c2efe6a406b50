"""Learn to read 26 letters, and count how often each is taken for which. A case of the hunt: what makes it slow?

    python hunt/slow_letters.py --profile          # a few steps of it are traced: trace.json.gz in the run's folder
    python hunt/slow_letters.py --help
"""

import torch
from torch import nn

from dlojz.labs.profiler_hunt import bench

LETTERS, SIZE = 26, 20


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, LETTERS))


def letters(count, device):
    """Images (count, SIZE, SIZE) and labels (count), on the device: there is nothing to load."""
    draw = torch.Generator().manual_seed(0)
    forms, labels = torch.randn(LETTERS, SIZE, SIZE, generator=draw), torch.randint(LETTERS, (count,), generator=draw)
    return (forms[labels] + 2 * torch.randn(count, SIZE, SIZE, generator=draw)).to(device), labels.to(device)


# >>> profiler_hunt.letters: the table of what was taken for what
def count(confusion, labels, outputs):
    """Adds a batch to ``confusion`` (LETTERS, LETTERS): the row is the letter that it was, the column the one that was read.

    ``labels``: int64 (B), ``outputs``: (B, LETTERS).
    """
    ones = torch.ones_like(labels)
    confusion.index_put_((labels, outputs.argmax(1)), ones, accumulate=True)
# <<< profiler_hunt.letters


def train(run):
    torch.manual_seed(run.args.seed)
    net = Net().to(run.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    images, labels = letters(8 * run.args.batch_size, run.device)
    batches = list(zip(images.split(run.args.batch_size), labels.split(run.args.batch_size)))
    confusion = torch.zeros(LETTERS, LETTERS, dtype=torch.int64, device=run.device)
    run.started(net)
    for images, labels in run.steps(batches):
        run.forward()
        outputs = net(images)
        loss = nn.functional.cross_entropy(outputs, labels)
        run.backward()
        loss.backward()
        run.update()
        optimizer.step()
        optimizer.zero_grad()
        run.add(loss, (outputs.argmax(1) == labels).sum(), len(labels))
        count(confusion, labels, outputs)
    wrong = confusion.clone().fill_diagonal_(0)
    letter, taken_for = divmod(wrong.argmax().item(), LETTERS)
    run.say(f"{confusion.sum()} letters; most often wrong: letter {letter} was read as {taken_for}, {wrong.max()} times")
    return confusion


if __name__ == "__main__":
    bench.main(train, __doc__)
