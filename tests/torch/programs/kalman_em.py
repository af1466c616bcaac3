"""A linear Gaussian filter whose noises are trained: Cholesky, log determinants, solves over time."""

import math

import torch
from torch import nn

from common import numbers


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.A = nn.Parameter(torch.tensor([[1.0, 0.1], [0.0, 0.9]], dtype=torch.float64))
        self.log_q = nn.Parameter(torch.full((2,), -2.0, dtype=torch.float64))
        self.log_r = nn.Parameter(torch.zeros(1).double())
        self.register_buffer("H", torch.tensor([[1.0, 0.0]]).double())

    def forward(self, ys):
        m, P = torch.zeros(2, dtype=ys.dtype), torch.eye(2, dtype=ys.dtype)
        Q, R, total = torch.diag(self.log_q.exp()), torch.diag(self.log_r.exp()), 0.0
        for y in ys:
            m, P = self.A @ m, self.A @ P @ self.A.T + Q
            S = self.H @ P @ self.H.T + R
            L = torch.linalg.cholesky(S)
            v = y - self.H @ m
            K = torch.cholesky_solve(self.H @ P, L).mT
            total = total - 0.5 * (v @ torch.linalg.solve(S, v) + 2 * L.diagonal().log().sum() + math.log(2 * math.pi))
            m, P = m + K @ v, P - K @ S @ K.mT
        return -total


def main(compiled):
    model = Filter()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    ys = torch.cumsum(torch.tensor(numbers(12, 1)), 0) * 0.5

    def step(ys):
        optimizer.zero_grad()
        loss = model(ys)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(ys).item() for _ in range(10)] + [torch.logdet(model.A.detach().T @ model.A.detach()).item()]
