"""A generator against a discriminator, which gathers gradients of the generator's loss that it never uses; then an attack on it
in eval mode, with gradients of the images. All of it is right."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
judge = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(16, 1))
of_generator, of_judge = (torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (generator, judge))
loss_of = nn.BCEWithLogitsLoss()
real, fake = torch.ones(6, 1), torch.zeros(6, 1)
for _ in range(20):
    judge.zero_grad()
    loss_of(judge(torch.randn(6, 8)), real).backward()
    made = generator(torch.randn(6, 4))
    loss_of(judge(made.detach()), fake).backward()
    of_judge.step()
    generator.zero_grad()
    loss_of(judge(made), real).backward()
    of_generator.step()
    judge.eval()
    for _attack in range(2):
        images = torch.randn(6, 8, requires_grad=True)
        loss_of(judge(images), real).backward()
    judge.zero_grad()
    judge.train()
