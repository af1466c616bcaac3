"""A generative adversarial pair: two optimisers, detach, labels filled in place."""

import torch
import torch.nn as nn

from common import fill, numbers


def main(compiled):
    D = nn.Sequential(
        nn.Linear(6, 12), nn.LeakyReLU(0.2), nn.Linear(12, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1), nn.Sigmoid()
    )
    G = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 6), nn.Tanh())
    fill(torch, D, seed=1), fill(torch, G, seed=2)
    criterion = nn.BCELoss()
    d_optimizer = torch.optim.Adam(D.parameters(), lr=0.01)
    g_optimizer = torch.optim.Adam(G.parameters(), lr=0.01)

    def reset_grad():
        d_optimizer.zero_grad()
        g_optimizer.zero_grad()

    def step(images, z1, z2):
        real_labels = torch.ones(images.size(0), 1, dtype=torch.float64)
        fake_labels = torch.zeros(images.size(0), 1, dtype=torch.float64)
        outputs = D(images)
        d_loss_real = criterion(outputs, real_labels)
        real_score = outputs
        outputs = D(G(z1).detach())
        d_loss_fake = criterion(outputs, fake_labels)
        fake_score = outputs
        d_loss = d_loss_real + d_loss_fake
        reset_grad()
        d_loss.backward()
        d_optimizer.step()
        outputs = D(G(z2))
        g_loss = criterion(outputs, real_labels)
        reset_grad()
        g_loss.backward()
        g_optimizer.step()
        return d_loss, g_loss, real_score.mean(), fake_score.mean()

    step = torch.compile(step) if compiled else step
    out = []
    for i in range(20):
        values = step(*(torch.tensor(numbers(8, n, seed=3 * i + k)) for k, n in enumerate((6, 3, 3))))
        out.extend(v.item() for v in values)
    return out
