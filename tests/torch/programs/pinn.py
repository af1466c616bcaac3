"""A physics-informed network for u'' = -sin(x): second derivatives by autograd.grad, LBFGS with a closure."""

import numpy as np
import torch
import torch.nn as nn

from common import fill


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def main(compiled):
    net = fill(
        torch, nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1)), scale=1.0
    )
    x = torch.tensor(np.linspace(0, np.pi, 12)[:, None], requires_grad=True)
    boundary = torch.tensor([[0.0], [np.pi]], dtype=torch.float64)

    def objective():
        u = net(x)
        u_xx = derivative(derivative(u, x), x)
        residual = u_xx + torch.sin(x)
        return (residual**2).mean() + (net(boundary) ** 2).sum()

    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = [step().item() for _ in range(15)]
    lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, history_size=5)

    def closure():
        lbfgs.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    for _ in range(3):
        out.append(lbfgs.step(closure).item())
    return out
