"""An image optimised for content and style: Gram matrices, a frozen network, total variation, the image as a leaf."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


def main(compiled):
    cnn = fill(
        torch, nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1))
    )
    cnn.eval().requires_grad_(False)
    content, style = torch.tensor(numbers(1, 3, 8, 8)), torch.tensor(numbers(1, 3, 8, 8, seed=1))
    target, gram = cnn(content).detach(), gram_matrix(cnn[:2](style)).detach()
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([image], lr=0.05)

    def step():
        optimizer.zero_grad()
        tv = torch.sum(torch.abs(image[:, :, :, :-1] - image[:, :, :, 1:])) + torch.sum(
            torch.abs(image[:, :, :-1, :] - image[:, :, 1:, :])
        )
        loss = F.mse_loss(cnn(image), target) + 1e3 * F.mse_loss(gram_matrix(cnn[:2](image)), gram) + 1e-3 * tv
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            image.clamp_(-2, 2)
        return loss

    step = torch.compile(step) if compiled else step
    return [step().item() for _ in range(12)] + [image.detach().abs().mean().item()]
