"""Learning to learn: an inner gradient step with create_graph, functional weights, an outer Adam."""

from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


class SineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            OrderedDict([("l1", nn.Linear(1, 12)), ("relu1", nn.Tanh()), ("l2", nn.Linear(12, 1))])
        )

    def forward(self, x, params=None):
        if params is None:
            return self.net(x)
        x = torch.tanh(F.linear(x, params["net.l1.weight"], params["net.l1.bias"]))
        return F.linear(x, params["net.l2.weight"], params["net.l2.bias"])


def main(compiled):
    model = fill(torch, SineNet(), scale=1.0)
    meta = torch.optim.Adam(model.parameters(), lr=5e-3)

    def outer(xs, ys):
        meta.zero_grad()
        total = 0.0
        for x, y in zip(xs.unbind(0), ys.unbind(0)):
            params = OrderedDict(model.named_parameters())
            loss = F.mse_loss(model(x[:5], params), y[:5])
            grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
            fast = OrderedDict((name, p - 0.1 * g) for (name, p), g in zip(params.items(), grads))
            total = total + F.mse_loss(model(x[5:], fast), y[5:])
        total.backward()
        meta.step()
        return total

    outer = torch.compile(outer) if compiled else outer
    out = []
    for i in range(20):
        x = torch.tensor(numbers(3, 10, 1, seed=i))
        amplitude = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64).view(3, 1, 1)
        out.append(outer(x, amplitude * torch.sin(x)).item())
    return out
