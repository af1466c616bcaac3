"""A hinge game with spectrally normalised critic and conditional batch norm."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

from common import classes, fill, numbers


class ConditionalBatchNorm(nn.Module):
    def __init__(self, n, k):
        super().__init__()
        self.bn, self.embed = nn.BatchNorm1d(n, affine=False), nn.Embedding(k, 2 * n)

    def forward(self, x, y):
        gamma, beta = self.embed(y).chunk(2, 1)
        return (1 + gamma) * self.bn(x) + beta


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.cbn, self.l2 = nn.Linear(3, 8), ConditionalBatchNorm(8, 2), nn.Linear(8, 4)

    def forward(self, z, y):
        return self.l2(F.relu(self.cbn(self.l1(z), y)))


def main(compiled):
    generator = fill(torch, G(), seed=1)
    linears = [nn.Linear(4, 8), nn.Linear(8, 1)]
    fill(torch, nn.ModuleList(linears), seed=2)
    critic = nn.Sequential(spectral_norm(linears[0]), nn.LeakyReLU(0.1), linears[1])
    with torch.no_grad():
        norm = critic[0].parametrizations.weight[0]
        norm._u.copy_(F.normalize(torch.tensor(numbers(8, seed=5)), dim=0))
        norm._v.copy_(F.normalize(torch.tensor(numbers(4, seed=6)), dim=0))
    opt_d = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.0, 0.9))

    def step(x, z, y):
        fake = generator(z, y)
        d_loss = F.relu(1.0 - critic(x)).mean() + F.relu(1.0 + critic(fake.detach())).mean()
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        g_loss = -critic(fake).mean()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        return d_loss, g_loss

    step = torch.compile(step) if compiled else step
    out = []
    for i in range(8):
        out += [
            v.item()
            for v in step(
                torch.tensor(numbers(8, 4, seed=i)),
                torch.tensor(numbers(8, 3, seed=40 + i)),
                torch.tensor(classes(8, 2, seed=i)),
            )
        ]
    return out
