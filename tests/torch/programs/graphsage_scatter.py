"""Messages along an edge list: index_add_, scatter_add, degrees by bincount, pooling per graph."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class SAGE(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin_l, self.lin_r = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        agg = torch.zeros_like(x).index_add_(0, dst, x[src])
        deg = torch.bincount(dst, minlength=x.size(0)).clamp(min=1).to(x.dtype)
        return self.lin_l(agg / deg.unsqueeze(1)) + self.lin_r(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.lin = SAGE(4, 8), SAGE(8, 8), nn.Linear(16, 2)

    def forward(self, x, edge_index, batch, graphs):
        h = F.relu(self.c2(F.relu(self.c1(x, edge_index)), edge_index))
        index = batch.unsqueeze(1).expand_as(h)
        mean = torch.zeros(graphs, h.size(1), dtype=h.dtype).scatter_add(0, index, h)
        top = torch.full((graphs, h.size(1)), -1e3, dtype=h.dtype).scatter_reduce(0, index, h, reduce="amax")
        return self.lin(torch.cat([mean / torch.bincount(batch, minlength=graphs).unsqueeze(1), top], 1))


def main(compiled):
    x, batch = torch.tensor(numbers(12, 4)), torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
    edge_index = torch.stack([torch.tensor(classes(30, 12)), torch.tensor(classes(30, 12, seed=1))])
    y = torch.tensor([0, 1, 1])
    model = fill(torch, Net())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edge_index, batch, 3), y)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x).item() for _ in range(20)]
