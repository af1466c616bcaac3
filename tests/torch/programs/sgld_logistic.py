"""Logistic regression by hand: parameters as leaves, updates under no_grad, noise from outside, a running mean."""

import torch

from common import classes, numbers


def main(compiled):
    x, y = torch.from_numpy(numbers(30, 3)), torch.from_numpy(classes(30, 2)).double()
    w, b = (
        torch.zeros(3, dtype=torch.double, requires_grad=True),
        torch.zeros((), dtype=torch.double, requires_grad=True),
    )
    mean = torch.zeros(4).double()

    def step(noise, lr, k):
        logits = x @ w + b
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y, reduction="sum") + 0.5 * (w @ w + b * b)
        loss.backward()
        with torch.no_grad():
            w.sub_(lr * w.grad).add_(noise[:3], alpha=float(lr) ** 0.5)
            b.sub_(lr * b.grad).add_(noise[3], alpha=float(lr) ** 0.5)
            w.grad.zero_()
            b.grad.zero_()
            mean.mul_(k / (k + 1)).add_(torch.cat([w, b.view(1)]), alpha=1 / (k + 1))
        return loss

    step = torch.compile(step) if compiled else step
    return [step(torch.from_numpy(numbers(4, seed=i)), 0.01, i).item() for i in range(12)] + mean.tolist()
