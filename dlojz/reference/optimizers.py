"""Optimizers, learning rate schedules and the learning rate finder, as train.py's switches call them.

    groups = parameter_groups(net, weight_decay)                          # no decay on norms and biases
    optimizer = make_optimizer("lamb", groups, lr, momentum, fused=False)
    schedule = make_schedule("cosine", optimizer, lr, updates, warmup)    # to be stepped once for each update that was made
    find_lr(net, optimizer, batches, loss_of)                             # a sweep of learning rates, on a copy

LARS, LAMB, Lion and Muon are written to be read: one parameter after the other, in the order of the published algorithm.
"""

import copy
import math

import torch

from dlojz import todo  # noqa: F401

NAMES = ["sgd", "adamw", "lars", "lamb", "lion", "muon"]
SCHEDULES = ["constant", "onecycle", "cosine", "wsd"]
COOLDOWN = 0.2  # of all updates: those in which --schedule wsd falls to 0


def default_lr(args, processes):
    """For updates from ``images`` images over all processes.

    SGD: 0.1 for 256 images, in proportion to their number (Goyal et al. 2017, arXiv:1706.02677, section 2.1). LARS, LAMB: with
    the square root of their number; LAMB as You et al. 2020 (arXiv:1904.00962, untuned LAMB for ImageNet). AdamW, and Muon,
    whose updates are scaled to be as large: torch's default. Lion: a tenth of it (Chen et al. 2023, arXiv:2302.06675, section 5).
    """
    images = args.batch_size * args.accumulate * processes
    return {"sgd": 0.1 * images / 256, "lars": (images / 256) ** 0.5, "lamb": 0.04 * (images / 32768) ** 0.5,
            "lion": 1e-4}.get(args.optimizer, 1e-3)


def parameter_groups(net, weight_decay):
    """The trainable parameters of ``net`` as two groups for an optimizer: first those that decay, matrices and kernels, in their
    order, then the rest: what batch norm scales and shifts by, and biases, all of one dimension, whose weight_decay is 0.

    A weight in front of a batch norm may shrink without changing what the network computes; scales and shifts may not.
    """
    # >>> optimizers.groups: decay for weights of two dimensions or more, and none for the rest
    parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
    return [{"params": [each for each in parameters if each.ndim > 1], "weight_decay": weight_decay},
            {"params": [each for each in parameters if each.ndim <= 1], "weight_decay": 0.0}]
    # <<< optimizers.groups


def make_optimizer(name, groups, lr, momentum, fused):
    """``groups``: as `parameter_groups` makes them. ``fused``: for torch's own; those of this file have no such kernel."""
    fused = True if fused else None  # None: torch chooses. False would mean one parameter after the other, even on a GPU
    if name == "sgd":
        return torch.optim.SGD(groups, lr, momentum=momentum, fused=fused)
    if name == "adamw":
        return torch.optim.AdamW(groups, lr, betas=(momentum, 0.999), fused=fused)
    if name in ("adamw8", "adamw16"):
        return SmallAdamW(groups, lr, betas=(momentum, 0.999), bits=int(name.removeprefix("adamw")))
    if name == "lars":
        return Lars(groups, lr, momentum=momentum)
    if name == "lamb":
        return Lamb(groups, lr, betas=(momentum, 0.999))
    if name == "lion":
        return Lion(groups, lr, betas=(momentum, 0.99))
    *hidden, last = groups[0]["params"]  # the classifier's weight: one row per class, which Muon's authors leave to AdamW
    return Muon([groups[0] | {"params": hidden, "orthogonal": True}, groups[0] | {"params": [last]}, *groups[1:]], lr,
                betas=(momentum, 0.999))


# -------------------------------------------------------------------------------------------------------------- schedules
def share(name, update, updates, warmup=0):
    """The fraction of --lr with which update number ``update`` is made: 0 is the first of ``updates``. A float from 0 to 1.

    Warm-up: the first ``warmup`` updates rise in equal steps, from 1/warmup to 1 (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2). The rest, by ``name``: "constant" stays 1. "cosine": half a cosine, from 1 in the first of them down to 0 after
    the last (Loshchilov and Hutter 2017, arXiv:1608.03983). "wsd", warm-up-stable-decay: 1, and in the last fifth of all updates
    (COOLDOWN; one at least) in equal steps down to 0 after the last (Hu et al. 2024, arXiv:2404.06395).
    """
    # >>> optimizers.schedule: rise, then what the name says
    if update < warmup:
        return (update + 1) / warmup
    if name == "cosine":
        return 0.5 * (1 + math.cos(math.pi * (update - warmup) / max(1, updates - warmup)))
    if name == "wsd":
        return min(1.0, max(0, updates - update) / max(1, round(COOLDOWN * updates)))
    return 1.0
    # <<< optimizers.schedule


def make_schedule(name, optimizer, lr, updates, warmup=0):
    """A schedule to step after each of ``updates`` updates (not after each batch: they differ under gradient accumulation)."""
    if name == "onecycle":  # torch's own, which warms up as well, and lets momentum fall meanwhile
        rising = min(0.9, (warmup + 1) / updates) if warmup else 0.3  # its highest rate comes after that share, less one
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=updates, pct_start=rising)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: share(name, update, updates, warmup))


# -------------------------------------------------------------------------------------------------------- learning rate finder
def find_lr(net, optimizer, batches, loss_of, lowest=1e-4, highest=10.0, steps=150):
    """Trains for ``steps`` updates whose learning rate rises from ``lowest`` to ``highest`` by the same factor each time, and
    tells what became of the loss (Smith 2017, arXiv:1506.01186). Returns a list of (rate, loss): the loss of a batch before the
    update that was made with this rate.

    ``batches``: gives a batch for each update (where it ends early, so does the sweep). ``loss_of(net, batch)``: the loss, a
    scalar tensor. It ends after a loss that is no number, or above four times the smallest so far. All of ``optimizer``'s groups
    get the same rate. ``net`` and ``optimizer`` stay as they are: weights, buffers, gradients, momenta, rates, training mode.
    """
    # >>> optimizers.finder: on a copy of both at once, so that the copied optimizer updates the copied weights
    net, optimizer = copy.deepcopy((net, optimizer))
    net.train()
    found = []
    for number, batch in zip(range(steps), batches):
        rate = lowest * (highest / lowest) ** (number / max(1, steps - 1))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(net, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append((rate, loss.item()))
        if not found[-1][1] <= 4 * min(loss for _, loss in found):
            break
    return found
    # <<< optimizers.finder


# ------------------------------------------------------------------------------------------------------------- optimizers
class ByHand(torch.optim.Optimizer):
    """Calls ``update(parameter, gradient, state, …)`` for each parameter that has a gradient, with the values of its group by
    name. ``state``: a dict of its own for each parameter, empty at first, which is part of checkpoints."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            values = {name: value for name, value in group.items() if name in self.defaults}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, self.state[parameter], **values)
        return loss


def kept(state, name, like):
    """The tensor of this name in a parameter's state: as ``like``, and zeros at first."""
    if name not in state:
        state[name] = torch.zeros_like(like)
    return state[name]


class Lars(ByHand):
    """SGD with momentum, whose learning rate is for each layer in proportion to |w| / |gradient| (You et al. 2017,
    arXiv:1708.03888, algorithm 1). What does not decay (norms, biases) is updated as by SGD, as in its authors' experiments."""

    def __init__(self, params, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    def update(self, w, gradient, state, lr, momentum, weight_decay, trust):
        velocity = kept(state, "velocity", w)
        if weight_decay:
            of_w, of_gradient = w.norm(), gradient.norm()
            local = torch.where((of_w > 0) & (of_gradient > 0), trust * of_w / (of_gradient + weight_decay * of_w), 1.0)
            gradient = local * (gradient + weight_decay * w)
        velocity.mul_(momentum).add_(gradient, alpha=lr)
        w.sub_(velocity)


def adam(gradient, state, betas, eps):
    """Adam's step for a learning rate of 1 (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1): mean / (sqrt(square) + eps), with
    both corrected for their start at 0. ``state`` keeps ``steps``, ``mean`` and ``square`` of the gradients."""
    state["steps"] = state.get("steps", 0) + 1
    mean = kept(state, "mean", gradient).lerp_(gradient, 1 - betas[0])
    square = kept(state, "square", gradient).lerp_(gradient * gradient, 1 - betas[1])
    one, two = (1 - beta ** state["steps"] for beta in betas)
    return (mean / one) / ((square / two).sqrt() + eps)


class Lamb(ByHand):
    """Adam's step, made as long as the weights of the layer, times lr (You et al. 2020, arXiv:1904.00962, algorithm 2). What does
    not decay (norms, biases) is updated as by Adam, as in NVIDIA's and timm's implementations."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def update(self, w, gradient, state, lr, betas, eps, weight_decay):
        """``w``: changed in place. ``adam`` gives Adam's step r and keeps what it needs in ``state``.

        Decay belongs to the step: r + weight_decay w. The trust ratio is |w| / |r + weight_decay w|, or 1 where one of the two
        norms is 0. No ``.item()``, and no ``if`` on a tensor: that would wait for the GPU for each layer.
        """
        # >>> optimizers.lamb: Adam's step and the decay, by the trust ratio where there is decay
        step = adam(gradient, state, betas, eps)
        if weight_decay:
            step = step + weight_decay * w
            of_w, of_step = w.norm(), step.norm()
            step = step * torch.where((of_w > 0) & (of_step > 0), of_w / of_step, 1.0)
        w.sub_(lr * step)
        # <<< optimizers.lamb


class SmallAdamW(ByHand):
    """AdamW whose two states have 8 or 16 ``bits`` per number instead of 32; it computes in float32. Weights may be bfloat16.

    8 bits: floats (E4M3) with a scale for each 256 numbers, in blocks as Dettmers et al. 2022 (arXiv:2110.02861); of the second
    state its root, whose range is half as wide. All is rounded up or down at random, so that on average nothing is lost (Zamirai
    et al. 2021, arXiv:2010.06192). Rounded to the nearest, a weight in bfloat16 would lose each update below 1/512 of it, and the
    second state, of which a step changes a thousandth, would soon stand still.
    """

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, bits=8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bits": bits})

    def update(self, w, gradient, state, lr, betas, eps, weight_decay, bits):
        gradient = gradient.float()
        whole = {"steps": state.get("steps", 0), "mean": torch.zeros_like(gradient), "square": torch.zeros_like(gradient)}
        if state and bits == 8:
            whole |= {"mean": unpacked(state, "mean", w), "square": unpacked(state, "root", w).square_()}
        elif state:
            whole |= {"mean": state["mean"].float(), "square": state["square"].float()}
        new = w.float() * (1 - lr * weight_decay) - lr * adam(gradient, whole, betas, eps)
        state["steps"] = whole["steps"]
        w.copy_(rounded(new) if w.dtype is torch.bfloat16 else new)
        if bits == 8:
            pack(state, "mean", whole["mean"])
            pack(state, "root", whole["square"].sqrt_(), least=2**-9)  # not 0, by which the next step would divide
        else:
            state["mean"], state["square"] = rounded(whole["mean"]).bfloat16(), rounded(whole["square"]).bfloat16()


def rounded(x, without=16):
    """``x``, float32, without the last bits of its fraction, 16 for bfloat16: up or down at random, the nearer one more often, so
    that the mean is ``x``."""
    last = torch.randint(2**without, x.shape, dtype=torch.int32, device=x.device)
    return (x.view(torch.int32) + last & -(2**without)).view(torch.float32)


def pack(state, name, x, least=-448):
    """Keeps ``x`` in ``state`` with 8 bits per number, and a scale per 256 numbers: a power of 2, exact in any format. ``least``:
    of the scaled numbers, which go up to 448 in E4M3."""
    parts = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % 256)).view(-1, 256)
    scale = (parts.abs().amax(1, keepdim=True) / 448).clamp(min=2**-100).log2().ceil().exp2()
    state[name] = rounded((parts / scale).clamp(min=least), without=20).to(torch.float8_e4m3fn)
    state[f"{name}_scale"] = scale


def unpacked(state, name, like):
    """What `pack` kept, as float32 in the shape of ``like``."""
    return (state[name].float() * state[f"{name}_scale"].float()).flatten()[: like.numel()].view(like.shape)


class Lion(ByHand):
    """The sign of a mean of gradients: one number to keep per weight, and all change by lr (Chen et al. 2023, arXiv:2302.06675,
    program 1)."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def update(self, w, gradient, state, lr, betas, weight_decay):
        mean = kept(state, "mean", w)
        w.mul_(1 - lr * weight_decay).add_(mean.lerp(gradient, 1 - betas[0]).sign_(), alpha=-lr)
        mean.lerp_(gradient, 1 - betas[1])


class Muon(ByHand):
    """Momentum, made orthogonal (Jordan et al. 2024, kellerjordan.github.io/posts/muon), for the weights of hidden layers: groups
    with ``orthogonal``. AdamW for the rest.

    As torch.optim.Muon with ``adjust_lr_fn="match_rms_adamw"`` (Liu et al. 2025, arXiv:2502.16982): updates are as large as
    AdamW's, so that all groups share its learning rate. torch's own takes matrices alone; here, a kernel (out, in, height,
    width) is the matrix (out, in x height x width). ``dtype``: of the products (bfloat16 on a GPU, as torch's; else float32).
    """

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, dtype=None):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "orthogonal": False,
                                  "dtype": dtype})

    def update(self, w, gradient, state, lr, betas, eps, weight_decay, orthogonal, dtype):
        w.mul_(1 - lr * weight_decay)
        if not orthogonal or w.ndim < 2:
            w.sub_(lr * adam(gradient, state, betas, eps))
            return
        mean = kept(state, "mean", gradient).lerp_(gradient, 1 - betas[0])
        ahead = gradient.lerp(mean, betas[0]).flatten(1)  # Nesterov's momentum
        step = orthogonalized(ahead.to(dtype or (torch.bfloat16 if w.is_cuda else torch.float32)))
        w.add_(step.reshape(w.shape), alpha=-lr * 0.2 * math.sqrt(max(ahead.shape)))


def orthogonalized(matrix, steps=5):
    """A matrix with the singular vectors of ``matrix``, whose singular values are near 1 (from 0.7 to 1.2), by Newton and Schulz:
    each step makes a polynomial of them, by products of matrices alone."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=1e-7)  # no singular value is above 1
    for _ in range(steps):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), wide, beta=3.4445)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T
