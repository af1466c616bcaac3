"""A vector field trained through Runge-Kutta steps; checkpoint of each step; L1 to a spiral."""

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from common import fill


class ODEFunc(nn.Module):
    def __init__(self):
        super(ODEFunc, self).__init__()
        self.net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3)


def rk4(func, t, dt, y):
    k1 = func(t, y)
    k2 = func(t + dt / 2, y + dt * k1 / 2)
    k3 = func(t + dt / 2, y + dt * k2 / 2)
    k4 = func(t + dt, y + dt * k3)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


def main(compiled):
    true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]).double()
    t = torch.linspace(0.0, 1.0, 9).double()
    y, ys = torch.tensor([[2.0, 0.0]]).double(), []
    with torch.no_grad():
        for i in range(8):
            y = rk4(lambda t, y: torch.mm(y**3, true_A), t[i], t[i + 1] - t[i], y)
            ys.append(y)
    true = torch.stack(ys)
    func = fill(torch, ODEFunc())
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-2)

    def step():
        optimizer.zero_grad()
        y, out = torch.tensor([[2.0, 0.0]], dtype=torch.float64, requires_grad=True), []
        for i in range(8):
            y = checkpoint(rk4, func, t[i], t[i + 1] - t[i], y, use_reentrant=False)
            out.append(y)
        loss = torch.mean(torch.abs(torch.stack(out) - true))
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step().item() for _ in range(10)]
