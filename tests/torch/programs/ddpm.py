"""Denoising: a schedule of noise by cumprod, gather by time step, a network told the time."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


def extract(a, t, x_shape):
    batch_size = t.shape[0]
    out = a.gather(-1, t)
    return out.reshape(batch_size, *((1,) * (len(x_shape) - 1)))


class Net(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.time = nn.Embedding(steps, 6)
        self.c1, self.c2 = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 1, 3, padding="same")
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, x, t):
        h = self.c1(x) + self.time(t)[:, :, None, None]
        return self.c2(F.silu(self.norm(h)))


def main(compiled):
    steps = 10
    betas = torch.linspace(1e-3, 0.2, steps, dtype=torch.float64)
    alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
    sqrt_ac, sqrt_1m = torch.sqrt(alphas_cumprod), torch.sqrt(1.0 - alphas_cumprod)
    alphas_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
    model = fill(torch, Net(steps))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def p_losses(x_start, t, noise):
        x_noisy = extract(sqrt_ac, t, x_start.shape) * x_start + extract(sqrt_1m, t, x_start.shape) * noise
        loss = F.smooth_l1_loss(noise, model(x_noisy, t))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    p_losses = torch.compile(p_losses) if compiled else p_losses
    out = []
    for i in range(20):
        x, noise = torch.tensor(numbers(4, 1, 6, 6, seed=i)), torch.tensor(numbers(4, 1, 6, 6, seed=100 + i))
        out.append(p_losses(x, torch.tensor(classes(4, steps, seed=i)).long(), noise).item())

    @torch.inference_mode()
    def sample(x):
        for i in reversed(range(steps)):
            t = torch.full((x.size(0),), i, dtype=torch.long)
            mean = (x - extract(betas / sqrt_1m, t, x.shape) * model(x, t)) / (1 - betas[i]).sqrt()
            variance = betas[i] * (1.0 - alphas_prev[i]) / (1.0 - alphas_cumprod[i])
            x = mean + variance.sqrt() * 0.5
        return x

    return out + sample(torch.tensor(numbers(2, 1, 6, 6, seed=7))).mean((1, 2, 3)).tolist()
