"""Autoencoders with three kinds of codes: a codebook of moving averages, rounded scalars, and signs with an entropy."""

from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers

Coded = namedtuple("Coded", ["quantized", "indices", "loss"])


class MovingCodebook(nn.Module):
    def __init__(self, dim, size, decay=0.8, eps=1e-5):
        super().__init__()
        codes = torch.tensor(numbers(size, dim, seed=3))
        self.decay, self.eps, self.size = decay, eps, size
        self.register_buffer("initted", torch.tensor(False))
        self.register_buffer("cluster_size", torch.zeros(size))
        self.register_buffer("embed", codes)
        self.register_buffer("embed_avg", codes.clone())

    @torch.no_grad()
    def begin(self, flat):
        if self.initted:
            return
        self.embed.data.copy_(flat[: self.size])
        self.embed_avg.data.copy_(self.embed)
        self.cluster_size.data.fill_(1.0)
        self.initted.data.copy_(torch.tensor(True))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        self.begin(flat)
        indices = (-torch.cdist(flat, self.embed)).argmax(dim=-1)
        quantized = self.embed[indices].view_as(x)
        if self.training:
            with torch.no_grad():
                onehot = F.one_hot(indices, self.size).type(x.dtype)
                self.cluster_size.data.lerp_(onehot.sum(dim=0), 1 - self.decay)
                self.embed_avg.data.lerp_(onehot.t() @ flat, 1 - self.decay)
                total = self.cluster_size.sum(dim=-1, keepdim=True)
                smoothed = (self.cluster_size + self.eps) / (total + self.size * self.eps) * total
                self.embed.data.copy_(self.embed_avg / smoothed.unsqueeze(-1))
        loss = F.mse_loss(quantized.detach(), x)
        return Coded(x + (quantized - x).detach(), indices, loss)


def round_ste(z):
    return z + (z.round() - z).detach()


class Scalars(nn.Module):
    def __init__(self, levels):
        super().__init__()
        self.register_buffer("levels", torch.tensor(levels, dtype=torch.int32), persistent=False)
        basis = torch.cumprod(torch.tensor([1] + levels[:-1]), dim=0, dtype=torch.int32)
        self.register_buffer("basis", basis, persistent=False)
        self.register_buffer("zero", torch.tensor(0.0), persistent=False)

    def bound(self, z, eps=1e-3):
        half = (self.levels - 1) * (1 + eps) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        shift = torch.atanh(offset / half)
        return torch.tanh(z + shift) * half - offset

    def forward(self, z):
        half_width = self.levels // 2
        codes = round_ste(self.bound(z)) / half_width
        indices = ((codes * half_width + half_width) * self.basis).sum(dim=-1).round().to(torch.int32)
        return Coded(codes, indices, self.zero)


def entropy(prob):
    return (-prob * prob.clamp(min=1e-5).log()).sum(dim=-1)


class Signs(nn.Module):
    def __init__(self, bits):
        super().__init__()
        self.register_buffer("mask", 2 ** torch.arange(bits - 1, -1, -1))
        every = ((torch.arange(2**bits)[..., None].int() & self.mask) != 0).to(torch.get_default_dtype())
        self.register_buffer("codebook", every * 2 - 1, persistent=False)

    def forward(self, x):
        x = F.normalize(x, dim=-1)
        quantized = torch.where(x > 0, torch.ones_like(x), -torch.ones_like(x))
        indices = ((quantized > 0).int() * self.mask.int()).sum(-1)
        quantized = F.normalize(quantized, dim=-1)
        flat = x.reshape(-1, x.shape[-1])
        prob = (2 * torch.einsum("... d, j d -> ... j", flat, F.normalize(self.codebook, dim=-1)) * 10.0).softmax(-1)
        loss = entropy(prob).mean() - entropy(prob.mean(dim=0)).mean()
        return Coded(x + (quantized - x).detach(), indices, loss)


class AutoEncoder(nn.Module):
    def __init__(self, quantizer, dim):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.GELU(), nn.Conv2d(4, dim, 1))
        self.quantizer = quantizer
        self.decode = nn.Sequential(
            nn.Conv2d(dim, 4, 3, padding=1), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(4, 1, 3, padding=1)
        )

    def forward(self, x):
        h = self.encode(x)
        b, c, height, width = h.shape
        coded = self.quantizer(h.permute(0, 2, 3, 1).reshape(b, height * width, c))
        h = coded.quantized.reshape(b, height, width, c).permute(0, 3, 1, 2)
        return Coded(self.decode(h), coded.indices, coded.loss)


KINDS = {
    "moving": lambda: AutoEncoder(MovingCodebook(4, 8), 4),
    "scalars": lambda: AutoEncoder(Scalars([5, 4, 3]), 3),
    "signs": lambda: AutoEncoder(Signs(4), 4),
}


def train(kind, compiled, steps=20):
    model = fill(torch, KINDS[kind]())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    forward = torch.compile(model) if compiled else model
    batches = [torch.tensor(numbers(4, 1, 8, 8, seed=i)) for i in range(3)]
    found = []
    for i in range(steps):
        x = batches[i % 3]
        optimizer.zero_grad()
        out, indices, loss = forward(x)
        recon = F.l1_loss(out.clamp(-1.0, 1.0), x)
        (recon + 0.1 * loss).backward()
        optimizer.step()
        found += [recon.item(), loss.item(), indices.unique().numel()]
    return found, forward


def main(compiled):
    return [x for kind in KINDS for x in train(kind, compiled)[0]]
