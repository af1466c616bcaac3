"""Rays rendered by a field: positional encoding, cumulated transmittance, chunks, searchsorted samples."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


def positional_encoding(x, n=3):
    out = [x]
    for i in range(n):
        for fn in (torch.sin, torch.cos):
            out.append(fn(2.0**i * x))
    return torch.cat(out, -1)


def cumprod_exclusive(tensor):
    cumprod = torch.cumprod(tensor, -1)
    cumprod = torch.roll(cumprod, 1, -1)
    cumprod[..., 0] = 1.0
    return cumprod


def render(raw, z_vals, rays_d):
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, 1e10 * torch.ones_like(dists[..., :1])], dim=-1) * torch.norm(
        rays_d[..., None, :], dim=-1
    )
    alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * dists)
    weights = alpha * cumprod_exclusive(1.0 - alpha + 1e-10)
    rgb = torch.sigmoid(raw[..., :3])
    return torch.sum(weights[..., None] * rgb, dim=-2), torch.sum(weights * z_vals, dim=-1), weights


def main(compiled):
    model = fill(torch, nn.Sequential(nn.Linear(21, 16), nn.ReLU(), nn.Linear(16, 4)), scale=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    rays_o, rays_d = torch.tensor(numbers(6, 3)), F.normalize(torch.tensor(numbers(6, 3, seed=1)), dim=-1)
    target = torch.sigmoid(torch.tensor(numbers(6, 3, seed=2)))
    t_vals = torch.linspace(0.0, 1.0, 8, dtype=torch.float64)
    z_vals = (2.0 * (1.0 - t_vals) + 6.0 * t_vals).expand(6, 8)

    def step(rays_o, rays_d):
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        raw = torch.cat([model(positional_encoding(c)) for c in torch.split(pts.reshape(-1, 3), 20)], 0)
        rgb, depth, weights = render(raw.reshape(list(pts.shape[:-1]) + [4]), z_vals, rays_d)
        loss = F.mse_loss(rgb, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, depth.mean()

    step = torch.compile(step) if compiled else step
    return [v.item() for _ in range(10) for v in step(rays_o, rays_d)]
