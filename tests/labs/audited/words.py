"""A small language model without a DataLoader: gradients of two batches, losses scaled for that, evaluation now and then."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
text = torch.randint(0, 30, (3000,))


def batch():
    at = torch.randint(0, 2900, (4, 1)) + torch.arange(17)
    return text[at[:, :-1]], text[at[:, 1:]]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True)
        self.head = nn.Linear(16, 30, bias=False)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return functional.cross_entropy(self.head(self.block(self.words(x), mask)).flatten(0, 1), y.flatten())


@torch.inference_mode()
def estimate():
    model.eval()
    losses = [model(*batch()).item() for _ in range(3)]
    model.train()
    return sum(losses) / 3


torch.set_float32_matmul_precision("high")
model = torch.compile(Model())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0)
for step in range(40):
    if step % 4 == 0:
        print(f"step {step}: {estimate():.3f}")
    for _ in range(2):
        loss = model(*batch()) / 2
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 10 == 0:
        print(f"{loss.item():.3f}")
