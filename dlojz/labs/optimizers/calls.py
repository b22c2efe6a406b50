"""What the check of optimizers calls the functions of optimizers.py with, and what is compared of what they do."""

import itertools

import torch
from torch import nn


# ----------------------------------------------------------------------------------------------------------------- groups
class Odd(nn.Module):
    """Also a scalar, a vector that is no bias, a matrix that is shared, and a frozen layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.gain = nn.Parameter(torch.ones(()))
        self.norm = nn.LayerNorm(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.out = nn.Linear(4, 5)
        self.out.weight = self.words.weight


def nets():
    yield "a linear layer", (nn.Linear(3, 2), 0.1)
    convolution = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))
    yield "a convolution, batch norm and a linear layer", (convolution, 5e-4)
    yield "an embedding, a scalar, layer norm and a frozen layer", (Odd(), 0.01)


def grouped(optimizers):
    def facts(net, weight_decay):
        names = {id(parameter): name for name, parameter in net.named_parameters()}
        groups = [dict(group) for group in optimizers.parameter_groups(net, weight_decay)]
        for group in groups:
            group["params"] = [names.get(id(each), "something else") for each in group["params"]]
        first, second, *_ = [*groups, {"params": []}, {"params": []}]
        every = [name for group in groups for name in group["params"]]
        frozen = [name for name, each in net.named_parameters() if not each.requires_grad]
        return {"the number of groups": len(groups),
                "parameters in no group": said(name for name in names.values() if name not in [*every, *frozen]),
                "parameters of no use": said(name for name in every if name in frozen),
                "the first group": said(first["params"]), "its decay": first.get("weight_decay"),
                "the second group": said(second["params"]), "the second group's decay": second.get("weight_decay")}

    return facts


def said(names):
    return ", ".join(names) or "none"


# -------------------------------------------------------------------------------------------------------------- schedules
def updates():
    for name, count, warmup in (("constant", 5, 0), ("constant", 7, 4), ("cosine", 6, 0), ("wsd", 7, 0), ("cosine", 7, 3),
                                ("wsd", 10, 4), ("wsd", 97, 5), ("wsd", 1, 0), ("cosine", 5, 20), ("cosine", 5, 5)):
        yield f"{name}, {count} updates{f' with a warm-up of {warmup}' * bool(warmup)} and after the last", (name, count, warmup)


def shares(optimizers):
    def of_each(name, updates, warmup):
        """Of each update, and what the schedule asks for once the last is over."""
        return torch.tensor([float(optimizers.share(name, update, updates, warmup)) for update in range(updates + 1)])

    return of_each


# ------------------------------------------------------------------------------------------------------------------- LAMB
def layers():
    matrix = torch.tensor([[0.6, 0.0], [0.0, -0.8]])
    gradients = torch.tensor([[[0.1, 0.2], [-0.3, 0.4]], [[0.2, -0.1], [0.5, 0.0]], [[0.3, 0.3], [0.1, -0.2]]])
    yield "one update of a matrix of length 1, decay 0.1", (matrix, gradients[:1], 0.5, 0.1)
    yield "one update of a bias, no decay", (torch.tensor([3.0, 4.0]), torch.tensor([[1.0, -2.0]]), 0.5, 0.0)
    yield "one update of a matrix of zeros, decay 0.1", (torch.zeros(2, 2), gradients[:1], 0.5, 0.1)
    yield "three updates of a matrix, decay 0.1", (3 * matrix, gradients, 0.1, 0.1)
    yield "three updates of a bias, no decay", (torch.tensor([3.0, 4.0]), gradients[:, 0], 0.1, 0.0)
    yield "a matrix on the GPU, decay 0.1", (matrix.to("cuda"), gradients.to("cuda"), 0.1, 0.1)


def lamb(optimizers):
    def after(weights, gradients, lr, weight_decay):
        parameter = nn.Parameter(weights.clone())
        optimizer = optimizers.Lamb([parameter], lr, weight_decay=weight_decay)
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        return parameter.detach()

    return after


# ----------------------------------------------------------------------------------------------------------------- finder
def sweeps():
    yield "4 rates from 0.001 to 1", (True, 6, {"lowest": 1e-3, "highest": 1.0, "steps": 4})
    yield "20 rates, of which the last diverge", (True, 30, {"lowest": 1e-2, "highest": 1e4, "steps": 20})
    yield "fewer batches than rates, a net in evaluation mode", (False, 3, {"lowest": 1e-3, "highest": 1.0, "steps": 6})


def swept(optimizers):
    def facts(training, count, how):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).double()
            batches = [(torch.randn(16, 6).double(), torch.randint(4, (16,))) for _ in range(count + 1)]
        groups = [{"params": list(net[:2].parameters()), "lr": 0.02}, {"params": list(net[2:].parameters())}]
        optimizer = torch.optim.SGD(groups, 0.01, momentum=0.9)
        loss_of(net, batches[-1]).backward()
        optimizer.step()
        net.train(training)
        before, taken = state(net, optimizer), []
        given = (taken.append(number) or batch for number, batch in enumerate(itertools.islice(batches, count)))
        found = list(optimizers.find_lr(net, optimizer, given, loss_of, **how))
        after = state(net, optimizer)
        result = {"the number of rates": len(found),
                  "rates": torch.tensor([float(rate) for rate, _ in found], dtype=torch.float64),
                  "losses": torch.tensor([float(loss) for _, loss in found], dtype=torch.float64)}
        changed = {name: "as before" if equal(before[name], after[name]) else "changed" for name in before}
        return changed | {"optimizer.rates": str(after["optimizer.rates"]), "net.mode": after["net.mode"]} | result | \
            {"batches taken": len(taken)}

    return facts


def loss_of(net, batch):
    return nn.functional.cross_entropy(net(batch[0]), batch[1])


def state(net, optimizer):
    def copied(tensors):
        return [None if each is None else each.detach().clone() for each in tensors]

    parameters = list(net.parameters())
    return {"net.weights": copied(parameters), "net.buffers": copied(net.buffers()),
            "net.gradients": copied(each.grad for each in parameters),
            "net.mode": "training mode" if net.training else "evaluation mode",
            "optimizer.rates": [group["lr"] for group in optimizer.param_groups],
            "optimizer.state": copied(optimizer.state[each].get("momentum_buffer") for each in parameters)}


def equal(one, other):
    if not isinstance(one, list) or not any(isinstance(each, torch.Tensor) for each in one):
        return one == other
    return len(one) == len(other) and all(a is b if a is None or b is None else torch.equal(a, b) for a, b in zip(one, other))
