"""Learn 40 answers about a face: does it smile, does it wear glasses, … A case of the hunt: what makes it slow?

    python hunt/slow_faces.py --profile            # a few steps of it are traced: trace.json.gz in the run's folder
    python hunt/slow_faces.py --help
"""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from dlojz.labs.profiler_hunt import bench

ANSWERS, FEATURES = 40, 128


# >>> profiler_hunt.faces: an answer to each question, and the loss
class Net(nn.Module):
    """Features (B, FEATURES) -> logits (B, ANSWERS)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    """The mean over all questions and faces; both are (B, ANSWERS)."""
    return binary_cross_entropy_with_logits(outputs, answers)
# <<< profiler_hunt.faces


def faces(count, device):
    """Features (count, FEATURES) and answers (count, ANSWERS) of 0 and 1, on the device: there is nothing to load."""
    draw = torch.Generator().manual_seed(0)
    features, rule = torch.randn(count, FEATURES, generator=draw), torch.randn(FEATURES, ANSWERS, generator=draw)
    return features.to(device), (features @ rule > 0).float().to(device)


def train(run):
    torch.manual_seed(run.args.seed)
    net = Net()
    for parameter in net.heads.parameters():  # all answers begin as "don't know", however the heads are arranged
        nn.init.zeros_(parameter)
    net.to(run.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    features, answers = faces(8 * run.args.batch_size, run.device)
    batches = list(zip(features.split(run.args.batch_size), answers.split(run.args.batch_size)))
    run.started(net)
    for features, answers in run.steps(batches):
        run.forward()
        outputs = net(features)
        loss = mean_loss(outputs, answers)
        run.backward()
        loss.backward()
        run.update()
        optimizer.step()
        optimizer.zero_grad()
        run.add(loss, ((outputs > 0) == (answers > 0)).sum() / ANSWERS, len(answers))


if __name__ == "__main__":
    bench.main(train, __doc__)
