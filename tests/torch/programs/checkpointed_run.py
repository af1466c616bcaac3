"""A run that is saved and resumed: torch.save of a dict, torch.load, best loss kept, a fresh model continues equally."""

import io

import torch
import torch.nn as nn

from common import fill, numbers


def build():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.BatchNorm1d(6), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)


def main(compiled):
    model, optimizer, scheduler = build()
    fill(torch, model)
    out = []

    def train(model, optimizer, scheduler, first, last):
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        for i in range(first, last):
            out.append(run(torch.tensor(numbers(8, 4, seed=i)), torch.tensor(numbers(8, 1, seed=90 + i))).item())
            scheduler.step()

    train(model, optimizer, scheduler, 0, 5)
    buffer = io.BytesIO()
    torch.save(
        {
            "epoch": 5,
            "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "best": min(out),
        },
        buffer,
    )
    train(model, optimizer, scheduler, 5, 10)
    buffer.seek(0)
    checkpoint = torch.load(buffer, map_location=torch.device("cpu"))
    again, optimizer, scheduler = build()
    again.double()
    again.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    train(again, optimizer, scheduler, checkpoint["epoch"], 10)
    assert out[5:10] == out[10:15]
    return out + [checkpoint["best"]]
