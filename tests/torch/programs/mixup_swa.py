"""Mixed samples, label pairs, stochastic weight averaging with its own schedule, batch norm updated after."""

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

from common import classes, fill, numbers


def mixup_data(x, y, lam, index):
    mixed_x = lam * x + (1 - lam) * x[index, :]
    return mixed_x, y, y[index]


def mixup_criterion(criterion, pred, y_a, y_b, lam):
    return lam * criterion(pred, y_a) + (1 - lam) * criterion(pred, y_b)


def main(compiled):
    model = fill(torch, nn.Sequential(nn.Linear(5, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 3)))
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3, T_mult=2)
    swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
    criterion = nn.CrossEntropyLoss()

    def step(x, y_a, y_b, lam):
        optimizer.zero_grad()
        loss = mixup_criterion(criterion, model(x), y_a, y_b, lam)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for i in range(14):
        x, y = torch.tensor(numbers(8, 5, seed=i)), torch.tensor(classes(8, 3, seed=i))
        inputs, a, b = mixup_data(x, y, 0.7, torch.arange(8).flip(0))
        out.append(step(inputs, a, b, 0.7).item())
        if i > 8:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
    update_bn([torch.tensor(numbers(8, 5, seed=90 + i)) for i in range(2)], swa_model)
    swa_model.eval()
    with torch.no_grad():
        return out + [optimizer.param_groups[0]["lr"], swa_model(torch.tensor(numbers(4, 5, seed=99))).sum().item()]
