"""What programs on PyTorch's libraries are listed in, and the numbers that they compute with."""

import zlib

import numpy as np
import torch
from torch import nn

# By name: the library's module, what is run, and the function.
PROGRAMS = {}


def program(library, what):
    """Return a decorator: list a program, which is given `out(name, numbers)`."""

    def listed(fn):
        PROGRAMS[fn.__name__] = (library, what, fn)
        return fn

    return listed


def rnd(shape, key="x", scale=1.0):
    """Return normal numbers, the same for a key in every process."""
    drawn = np.random.default_rng(zlib.crc32(str(key).encode())).normal(size=tuple(shape)) * scale
    return torch.from_numpy(drawn).to(torch.get_default_dtype())


def ints(shape, n, key="i"):
    """Return integers below n, the same for a key in every process."""
    return torch.from_numpy(np.random.default_rng(zlib.crc32(str(key).encode())).integers(0, n, size=tuple(shape)))


def fill(model, scale=0.1):
    """Give a model's parameters numbers that follow from their names, and return it."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            drawn = rnd(p.shape, name, scale)
            p.copy_((1 + drawn if p.dim() <= 1 and name.endswith("weight") else drawn).to(p.dtype))
    return model


def train(model, loss_of, n=4, lr=1e-2, opt=None):
    """Return the losses of some steps."""
    opt = opt or torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for i in range(n):
        opt.zero_grad()
        loss = loss_of(i)
        loss.backward()
        losses.append(loss.item())
        opt.step()
    return losses


def gradsum(model):
    """Return the sum of the absolute gradients."""
    return sum(float(p.grad.abs().sum()) for p in model.parameters() if p.grad is not None)


def mlp(*sizes):
    """Return layers with tanh between them, their parameters filled."""
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])
