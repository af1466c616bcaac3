"""Training on inputs moved along their gradient's sign: PGD within a ball, model in eval and train mode."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


def pgd(model, x, y, epsilon=0.3, step_size=0.1, steps=3):
    model.eval()
    x_adv = x.detach() + 0.001 * torch.ones_like(x)
    for _ in range(steps):
        x_adv.requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(model(x_adv), y)
        grad = torch.autograd.grad(loss, [x_adv])[0]
        x_adv = x_adv.detach() + step_size * torch.sign(grad.detach())
        x_adv = torch.min(torch.max(x_adv, x - epsilon), x + epsilon)
        x_adv = torch.clamp(x_adv, -2.0, 2.0)
    model.train()
    return x_adv.detach()


def main(compiled):
    model = fill(torch, nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ELU(), nn.Linear(12, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.1)

    def step(x, y):
        x_adv = pgd(model, x, y)
        optimizer.zero_grad()
        natural, robust = model(x), model(x_adv)
        loss = F.cross_entropy(natural, y) + 2.0 * nn.KLDivLoss(reduction="sum")(
            F.log_softmax(robust, dim=1), F.softmax(natural, dim=1)
        ) / x.size(0)
        loss.backward()
        optimizer.step()
        return loss, (x_adv - x).abs().max()

    step = torch.compile(step) if compiled else step
    return [
        v.item()
        for i in range(10)
        for v in step(torch.tensor(numbers(8, 6, seed=i)), torch.tensor(classes(8, 3, seed=i)))
    ]
