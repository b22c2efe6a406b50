"""A decoder-only language model in plain PyTorch, as train_lm.py trains it: RMSNorm, rotary embeddings, attention, SwiGLU.

    net = Transformer(shape("1m", vocabulary=320, length=256))
    loss = net(tokens, targets)                       # int64 (batch, length) each: the mean over all tokens
    logits = net(tokens)                              # (batch, length, vocabulary)
    generate(net, prompt, 100)                        # int64 (batch, prompt + 100)
"""

import math
from dataclasses import dataclass

import saving
import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """What a model is made of. ``length``: the longest context, in tokens."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int

    @property
    def hidden(self) -> int:
        """Width between SwiGLU's three matrices: together they have the 8 x width² weights of two matrices with 4 x width between
        (Shazeer 2020, arXiv:2002.05202), rounded up to what tensor cores like."""
        return -(-8 * self.width // 3 // 64) * 64

    def flops_per_token(self, parameters: int) -> int:
        """Operations of forward and backward pass for one token: 6 for each parameter, and 12 x layers x width x length for
        attention, counted over the whole square of tokens (PaLM: Chowdhery et al. 2022, arXiv:2204.02311, appendix B)."""
        return 6 * parameters + 12 * self.layers * self.width * self.length


PRESETS = {  # parameters: layers, width, heads
    "1m": (5, 128, 2),
    "10m": (6, 384, 6),
    "124m": (12, 768, 6),  # as GPT-2 small, with heads of 128 instead of 64: the same work, and faster attention kernels
    "350m": (24, 1024, 8),
    "1b": (20, 2048, 16),
    "3b": (26, 3072, 24),
}


def shape(preset: str, vocabulary: int, length: int) -> Shape:
    return Shape(*PRESETS[preset], vocabulary, length)


def default_lr(shape: Shape) -> float:
    """For Adam, from the number of parameters without the embedding (Kaplan et al. 2020, arXiv:2001.08361, equation D.1)."""
    return 0.003239 - 0.0001395 * math.log(shape.layers * (4 * shape.width**2 + 3 * shape.width * shape.hidden))


class RMSNorm(nn.Module):
    """Each token divided by the root of its mean square (Zhang and Sennrich 2019, arXiv:1910.07467)."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype), 1e-5)


def angles(length: int, size: int) -> torch.Tensor:
    """Cosines and sines, float32 (2, length, 1, size / 2), of the angles position x 10000^(-2i / size)."""
    turns = torch.outer(torch.arange(length).float(), 10000 ** (-torch.arange(0, size, 2).float() / size))
    return torch.stack([turns.cos(), turns.sin()])[:, :, None]


def rotate(x, turn):
    """Rotary embedding (Su et al. 2021, arXiv:2104.09864) of ``x`` (batch, length, heads, size): pairs of numbers turn by an
    angle that grows with the position, so that the product of a query and a key depends on their distance alone."""
    if not torch.compiler.is_compiling():
        return Rotation.apply(x, turn)
    (cos, sin), (a, b) = turn, x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


class Rotation(torch.autograd.Function):
    """The same without a compiler, which would make one kernel of those lines. Here each line is a kernel: there are few, in the
    format of ``x``, and nothing is kept for the backward pass, which turns the gradient back."""

    @staticmethod
    def forward(ctx, x, turn):
        ctx.turn = turn.to(x.dtype)
        return Rotation.turned(x, *ctx.turn)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.turn
        return Rotation.turned(grad, cos, -sin), None

    @staticmethod
    def turned(x, cos, sin):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        (a, b), (left, right) = x.chunk(2, dim=-1), out.chunk(2, dim=-1)
        torch.addcmul(a * cos, b, sin, value=-1, out=left)
        torch.addcmul(a * sin, b, cos, out=right)
        return out


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x, turn, mask=None, cache=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)  # each (batch, length, heads, size)
        q, k, v = (part.transpose(1, 2) for part in (rotate(q, turn), rotate(k, turn), v))
        if cache is not None:
            k, v = cache.extended(k, v)
        causal = mask is None and q.shape[2] == k.shape[2]  # a single new token may look at all before it
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(x.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)  # one product for both would have their gradients copied
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)  # side by side in the backward pass, which takes longer
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.norm1, self.attention = RMSNorm(shape.width), Attention(shape)
        self.norm2, self.mlp = RMSNorm(shape.width), SwiGLU(shape)

    def forward(self, x, turn, mask=None, cache=None):
        x = x + self.attention(self.norm1(x), turn, mask, cache)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """Tokens in, logits or loss out. The embedding's matrix also makes the logits (Press and Wolf 2017, arXiv:1608.05859).

    ``recompute``: ``all`` keeps only the input of each block for the backward pass, ``products`` also the results of matrix
    products; ``chunks``: the loss is computed in so many parts.
    """

    def __init__(self, shape: Shape, recompute: str = "", chunks: int = 1):
        super().__init__()
        self.shape, self.recompute, self.chunks = shape, recompute, chunks
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("turns", angles(shape.length, shape.width // shape.heads), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:  # smaller where it adds to the residual, which 2 x layers do (Radford et al. 2019, GPT-2)
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * shape.layers) if last else 0.02)

    def forward(self, tokens, targets=None, mask=None, cache=None):
        """``tokens``: int64 (batch, length). ``targets``: the same shape; then returns the mean loss, float32 (), else logits.

        ``mask``: bool (batch, 1, length, length), True where a token may look: see `documents`. ``cache``: a `Cache` that holds
        the tokens before these.
        """
        first = cache.length if cache is not None else 0
        x = self.embedding(tokens)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))  # the residual, half as many bytes
        turn = self.turns[:, first : first + tokens.shape[1]]
        for number, block in enumerate(self.blocks):
            if self.recompute and self.training:
                x = saving.recomputed(block, x, turn, mask, keep_products=self.recompute == "products")
            else:
                x = block(x, turn, mask, cache and cache.layers[number])
        x = self.norm(x)
        if targets is None:
            return self.head(x)
        if self.chunks > 1:
            return saving.chunked_loss(x, self.head, targets, self.chunks)
        return next_token_loss(x, self.head, targets)


def next_token_loss(x, head, targets):
    """The mean cross-entropy of ``head(x)``, (batch, length, vocabulary), with ``targets``, (batch, length)."""
    logits, targets = head(x).flatten(0, 1), targets.flatten()
    if torch.compiler.is_compiling():
        return CrossEntropy.apply(logits, targets)
    return F.cross_entropy(logits.float(), targets)


class CrossEntropy(torch.autograd.Function):
    """The same in powers of two, for the compiler, which makes of it one kernel forward and one backward, faster than those
    that it has for `F.cross_entropy`. Without a compiler each line would write all logits once more."""

    @staticmethod
    def forward(ctx, logits, targets):
        bits = logits.float() * math.log2(math.e)
        most = bits.amax(1, keepdim=True)
        total = most + (bits - most).exp2().sum(1, keepdim=True).log2()
        ctx.save_for_backward(logits, targets, total)
        right = logits.gather(1, targets[:, None]).float() * math.log2(math.e)
        return (total - right).mean() * math.log(2)

    @staticmethod
    def backward(ctx, grad):
        logits, targets, total = ctx.saved_tensors
        share = (logits.float() * math.log2(math.e) - total).exp2()
        right = torch.arange(logits.shape[1], device=logits.device) == targets[:, None]
        return ((share - right.float()) * (grad / len(targets))).to(logits.dtype), None


def documents(tokens, separator: int):
    """The mask of rows in which several documents are packed, bool (batch, 1, length, length): a token looks at itself and those
    before it, of its own document. A document begins with its separator.

    Rotary embeddings know distances only, so a document need not begin at position 0. With a mask, attention takes a slower
    kernel.
    """
    number = (tokens == separator).cumsum(1)
    length = tokens.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
    return (causal & (number[:, :, None] == number[:, None, :]))[:, None]


# -------------------------------------------------------------------------------------------------------------- generation
class Cache:
    """Keys and values of all tokens so far: a new token needs only its own row of products, and reads the others from here."""

    def __init__(self, shape: Shape, batch: int, length: int, dtype: torch.dtype, device):
        size = batch, shape.heads, length, shape.width // shape.heads
        self.length = 0
        self.layers = [_Layer(self, torch.empty(2, *size, dtype=dtype, device=device)) for _ in range(shape.layers)]


class _Layer:
    def __init__(self, cache: Cache, kept: torch.Tensor):
        self.cache, self.kept = cache, kept

    def extended(self, k, v):
        first = self.cache.length
        self.kept[0, :, :, first : first + k.shape[2]] = k
        self.kept[1, :, :, first : first + k.shape[2]] = v
        return self.kept[:, :, :, : first + k.shape[2]]


@torch.no_grad()
def generate(net: Transformer, tokens, count: int, temperature: float = 0.0, cached: bool = True):
    """``tokens``, int64 (batch, length), and ``count`` more: the likeliest ones, or drawn where ``temperature`` is above 0.

    ``cached=False`` computes all tokens again for each new one: the same, slower. Raises ValueError beyond the model's
    ``length``.
    """
    if tokens.shape[1] + count > net.shape.length:
        raise ValueError(f"{tokens.shape[1]} + {count} tokens are more than the {net.shape.length} of this model")
    was_training, device = net.training, tokens.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else net.embedding.weight.dtype
    cache = Cache(net.shape, len(tokens), tokens.shape[1] + count, dtype, tokens.device) if cached else None
    net.eval()
    new = tokens
    for _ in range(count):
        logits = net(new if cached else tokens, cache=cache)[:, -1].float()
        if cached:
            cache.length += new.shape[1]
        new = torch.multinomial((logits / temperature).softmax(-1), 1) if temperature else logits.argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    net.train(was_training)
    return tokens
