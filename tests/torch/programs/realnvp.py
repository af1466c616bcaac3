"""Coupling layers with masks as parameters that do not train, log determinants, a base distribution."""

import torch
from torch import distributions, nn

from common import fill, numbers


class RealNVP(nn.Module):
    def __init__(self, nets, nett, mask, prior):
        super(RealNVP, self).__init__()
        self.prior = prior
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(mask))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(mask))])

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp


def main(compiled):
    nets = lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 2), nn.Tanh())
    nett = lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 2))
    masks = torch.tensor([[0, 1], [1, 0]] * 2, dtype=torch.float64)
    prior = distributions.MultivariateNormal(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    flow = RealNVP(nets, nett, masks, prior)
    keep = flow.mask.detach().clone()
    fill(torch, flow)
    with torch.no_grad():
        flow.mask.copy_(keep)
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad], lr=1e-2)

    def step(x):
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for t in range(20):
        x = torch.from_numpy(numbers(10, 2, seed=t))
        x[:, 1] = x[:, 1] * 0.3 + x[:, 0] ** 2
        out.append(step(x).item())
    return out
