"""Capsules routed by agreement: einsum predictions, squash, margin loss, reconstruction of the masked capsule."""

import torch
import torch.nn.functional as F
from torch import nn

from common import classes, fill, numbers


def squash(x, dim=-1):
    squared_norm = (x**2).sum(dim=dim, keepdim=True)
    return squared_norm / (1 + squared_norm) * x / (squared_norm.sqrt() + 1e-8)


class DigitCaps(nn.Module):
    def __init__(self, in_dim, in_caps, num_caps, dim_caps, routes):
        super().__init__()
        self.routes = routes
        self.W = nn.Parameter(0.01 * torch.randn(1, num_caps, in_caps, dim_caps, in_dim))

    def forward(self, x):
        u_hat = torch.matmul(self.W, x.unsqueeze(1).unsqueeze(4)).squeeze(4)
        temp_u_hat = u_hat.detach()
        b = x.new_zeros(x.size(0), self.W.size(1), self.W.size(2), 1)
        for _ in range(self.routes - 1):
            c = b.softmax(dim=1)
            v = squash((c * temp_u_hat).sum(dim=2))
            b += torch.matmul(temp_u_hat, v.unsqueeze(-1))
        return squash((b.softmax(dim=1) * u_hat).sum(dim=2))


def main(compiled):
    caps, decoder = (
        DigitCaps(4, 6, 3, 5, 3),
        nn.Sequential(nn.Linear(15, 8), nn.ReLU(inplace=True), nn.Linear(8, 24), nn.Sigmoid()),
    )
    model = fill(torch, nn.ModuleList([caps, decoder]), scale=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    images, labels = torch.tensor(numbers(5, 6, 4)), torch.tensor(classes(5, 3))

    def step(x, labels):
        labels = torch.eye(3, dtype=torch.float64).index_select(dim=0, index=labels)
        v = caps(squash(x))
        logits = torch.norm(v, dim=-1)
        left, right = F.relu(0.9 - logits) ** 2, F.relu(logits - 0.1) ** 2
        margin = (labels * left + 0.5 * (1 - labels) * right).sum(1).mean()
        reconstruction = decoder((v * labels[:, :, None]).contiguous().view(x.size(0), -1))
        loss = margin + 5e-4 * F.mse_loss(reconstruction, torch.sigmoid(x).view(x.size(0), -1), reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(images, labels).item() for _ in range(12)]
