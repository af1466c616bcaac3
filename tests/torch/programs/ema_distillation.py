"""A student follows a slow teacher: deepcopy, parameters moved in place, KL between temperatures."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


class EMA:
    def __init__(self, model, decay):
        self.ema = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.ema.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        msd = model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.kind == "f" if hasattr(v.dtype, "kind") else v.dtype.is_floating_point:
                v *= self.decay
                v += (1.0 - self.decay) * msd[k].detach()


def main(compiled):
    student = fill(torch, nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Linear(8, 3)))
    ema = EMA(student, 0.9)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.2)
    T = 2.0

    def step(x):
        with torch.no_grad():
            target = F.softmax(ema.ema(x) / T, dim=1)
        loss = F.kl_div(F.log_softmax(student(x + 0.1) / T, dim=1), target, reduction="batchmean") * T * T
        loss = loss + 0.1 * F.mse_loss(student(x), torch.roll(x, 1, dims=1)[:, :3])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for i in range(20):
        out.append(step(torch.tensor(numbers(8, 5, seed=i))).item())
        ema.update(student)
    return out + [sum(p.abs().sum().item() for p in ema.ema.parameters())]
