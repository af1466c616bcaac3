"""Spiking neurons with a surrogate gradient: a custom autograd function, state through time."""

import torch
import torch.nn as nn

from common import classes, fill, numbers


class SurrGradSpike(torch.autograd.Function):
    scale = 10.0

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        out = torch.zeros_like(input)
        out[input > 0] = 1.0
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        return grad_input / (SurrGradSpike.scale * torch.abs(input) + 1.0) ** 2


spike_fn = SurrGradSpike.apply


def main(compiled):
    w1 = nn.Parameter(torch.tensor(numbers(5, 12, seed=1)))
    w2 = nn.Parameter(torch.tensor(numbers(12, 3, seed=2, scale=0.5)))
    optimizer = torch.optim.Adamax([w1, w2], lr=0.01, betas=(0.9, 0.999))
    log_softmax_fn, loss_fn = nn.LogSoftmax(dim=1), nn.NLLLoss()
    x = (torch.tensor(numbers(4, 8, 5)) > 0.5).double()
    y = torch.tensor(classes(4, 3))

    def step(inputs, y):
        h1 = torch.einsum("abc,cd->abd", (inputs, w1))
        syn, mem, spikes = torch.zeros(4, 12).double(), torch.zeros(4, 12).double(), []
        for t in range(inputs.shape[1]):
            out = spike_fn(mem - 1.0)
            rst = out.detach()
            syn, mem = 0.8 * syn + h1[:, t], (0.9 * mem + syn) * (1.0 - rst)
            spikes.append(out)
        spk = torch.stack(spikes, dim=1)
        h2 = torch.einsum("abc,cd->abd", (spk, w2))
        m, _ = torch.max(torch.cumsum(h2, dim=1), 1)
        loss = loss_fn(log_softmax_fn(m), y) + 1e-3 * torch.sum(spk) / spk.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x, y).item() for _ in range(15)]
