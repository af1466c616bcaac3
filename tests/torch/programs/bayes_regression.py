"""Weights with their own uncertainty: softplus scales, KL by distributions, samples from given noise."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

from common import numbers


class BayesLinear(nn.Module):
    def __init__(self, i, o, seed):
        super().__init__()
        self.mu = nn.Parameter(torch.tensor(numbers(o, i, seed=seed, scale=0.3)))
        self.rho = nn.Parameter(torch.full((o, i), -3.0, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(o).double())

    @property
    def posterior(self):
        return Normal(self.mu, F.softplus(self.rho))

    def kl(self):
        return kl_divergence(self.posterior, Normal(torch.zeros_like(self.mu), torch.ones_like(self.mu))).sum()

    def forward(self, x, eps):
        w = self.posterior
        return F.linear(x, w.loc + w.scale * eps, self.bias)


def main(compiled):
    l1, l2 = BayesLinear(1, 8, 1), BayesLinear(8, 1, 2)
    params = [*l1.parameters(), *l2.parameters()]
    optimizer = torch.optim.Adamax(params, lr=0.02)
    x = torch.linspace(-1, 1, 16, dtype=torch.float64).unsqueeze(-1)
    y = x**3 + 0.1 * torch.tensor(numbers(16, 1))
    log_noise = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer.add_param_group({"params": [log_noise], "lr": 0.05})

    def step(e1, e2):
        optimizer.zero_grad()
        pred = l2(torch.tanh(l1(x, e1)), e2)
        nll = -Normal(pred, log_noise.exp()).log_prob(y).sum()
        loss = nll + 0.05 * (l1.kl() + l2.kl())
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = [
        step(torch.tensor(numbers(8, 1, seed=2 * i)), torch.tensor(numbers(1, 8, seed=2 * i + 1))).item()
        for i in range(20)
    ]
    return out + [log_noise.item()]
