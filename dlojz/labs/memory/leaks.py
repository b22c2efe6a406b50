"""Four loops that hold more than they need. Which line of each is to blame? `figures.leak` runs them and draws what is held."""

import io

import torch
from torch import nn
from torch.nn import functional as F


def model():
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def batches(count=8):
    return [(torch.randn(512, 256), torch.randint(10, (512,))) for _ in range(count)]


def a(note):
    net, losses = model(), []
    for images, labels in batches():
        loss = F.cross_entropy(net(images), labels)
        losses.append(loss)
        note()
    return torch.stack(losses).mean().item()


def b(note):
    net, seen = model(), []
    net[2].register_forward_hook(lambda module, inputs, output: seen.append(output.mean))
    with torch.no_grad():
        for images, _ in batches():
            net(images)
            note()
    return [mean().item() for mean in seen]


def c(note):
    net, right = model(), 0
    net.eval()
    for images, labels in batches():
        outputs = net(images)
        right += (outputs.argmax(1) == labels).sum().item()
        note()
    return right


def d(note):
    net = model()
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    note()
    state = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    note()
    net.load_state_dict(state)
    note()
    loss = F.cross_entropy(net(torch.randn(512, 256)), torch.zeros(512, dtype=torch.long))
    note()
    loss.backward()
    note()


# What mends each: detach what is kept; keep one number, not a method of all; no_grad; let go of the state.
MENDED = {"a": ("losses.append(loss)", "losses.append(loss.detach())"), "b": ("output.mean)", "output.mean().detach)"),
          "c": ("        outputs = net(images)", "        with torch.no_grad():\n            outputs = net(images)"),
          "d": ("    net.load_state_dict(state)", "    net.load_state_dict(state)\n    del state")}
