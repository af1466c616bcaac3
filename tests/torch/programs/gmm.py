"""A mixture fitted by gradient: mixtures of distributions, softmax weights, a covariance by its factor."""

import math

import torch

from common import numbers


def main(compiled):
    x = torch.tensor(numbers(30, 2))
    x[:15] += torch.tensor([2.0, 2.0], dtype=torch.float64)
    means = torch.tensor(numbers(3, 2, seed=1)).requires_grad_()
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    factors = torch.eye(2).double().repeat(3, 1, 1).requires_grad_()
    optimizer = torch.optim.Rprop([means, logits, factors], lr=0.05)

    def step(x):
        optimizer.zero_grad()
        L = torch.tril(factors, -1) + torch.diag_embed(
            torch.nn.functional.softplus(torch.diagonal(factors, dim1=-2, dim2=-1))
        )
        d = torch.linalg.solve_triangular(L, (x[:, None] - means).unsqueeze(-1), upper=False).squeeze(-1)
        log_prob = -0.5 * d.pow(2).sum(-1) - torch.diagonal(L, 0, -2, -1).log().sum(-1) - math.log(2 * math.pi)
        loss = -torch.logsumexp(torch.log_softmax(logits, 0) + log_prob, dim=1).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x).item() for _ in range(15)] + torch.softmax(logits, 0).tolist()
