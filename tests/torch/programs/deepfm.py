"""Clicks from fields: offsets into one table, factorisation sums, an embedding bag, BCE, AUC by pairs."""

import numpy as np
import torch
from torch import nn

from common import classes, fill


class FeaturesLinear(nn.Module):
    def __init__(self, field_dims, output_dim=1):
        super().__init__()
        self.fc = nn.Embedding(sum(field_dims), output_dim)
        self.bias = nn.Parameter(torch.zeros((output_dim,)))
        self.offsets = np.array((0, *np.cumsum(field_dims)[:-1]), dtype=np.int64)

    def forward(self, x):
        x = x + x.new_tensor(self.offsets).unsqueeze(0)
        return torch.sum(self.fc(x), dim=1) + self.bias


class DeepFM(nn.Module):
    def __init__(self, field_dims, embed_dim):
        super().__init__()
        self.linear = FeaturesLinear(field_dims)
        self.embedding = nn.Embedding(sum(field_dims), embed_dim)
        self.bag = nn.EmbeddingBag(sum(field_dims), embed_dim, mode="mean")
        self.mlp = nn.Sequential(
            nn.Linear(len(field_dims) * embed_dim, 8), nn.ReLU(), nn.Dropout(p=0.0), nn.Linear(8, 1)
        )

    def forward(self, x):
        e = self.embedding(x + x.new_tensor(self.linear.offsets).unsqueeze(0))
        fm = 0.5 * ((torch.sum(e, dim=1) ** 2) - torch.sum(e**2, dim=1)).sum(dim=1, keepdim=True)
        out = self.linear(x) + fm + self.mlp(e.view(e.size(0), -1)) + self.bag(x).sum(1, keepdim=True)
        return torch.sigmoid(out.squeeze(1))


def main(compiled):
    dims = [4, 6, 3]
    x = torch.tensor(np.stack([classes(20, d, seed=i) for i, d in enumerate(dims)], 1))
    y = torch.tensor(classes(20, 2, seed=7)).double()
    model, criterion = fill(torch, DeepFM(dims, 4)), nn.BCELoss()
    optimizer = torch.optim.Adam(params=model.parameters(), lr=0.01, weight_decay=1e-6)

    def train(x, y):
        loss = criterion(model(x), y.double())
        model.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train = torch.compile(train) if compiled else train
    losses = [train(x, y).item() for _ in range(15)]
    with torch.no_grad():
        p = model(x)
        wins = (p[y == 1].unsqueeze(1) > p[y == 0].unsqueeze(0)).double() + 0.5 * (
            p[y == 1].unsqueeze(1) == p[y == 0].unsqueeze(0)
        ).double()
        return losses + [wins.mean().item()]
