"""Ratings from two embeddings and biases, a sparse batch of triples, early stopping by hand."""

import torch
from torch import nn

from common import classes, fill, numbers


class MF(nn.Module):
    def __init__(self, num_users, num_items, emb_size=4):
        super(MF, self).__init__()
        self.user_emb, self.user_bias = nn.Embedding(num_users, emb_size), nn.Embedding(num_users, 1)
        self.item_emb, self.item_bias = nn.Embedding(num_items, emb_size), nn.Embedding(num_items, 1)
        self.user_emb.weight.data.uniform_(0, 0.05)
        self.item_emb.weight.data.uniform_(0, 0.05)

    def forward(self, u, v):
        U, V = self.user_emb(u), self.item_emb(v)
        return (U * V).sum(1) + self.user_bias(u).squeeze() + self.item_bias(v).squeeze()


def main(compiled):
    model = fill(torch, MF(10, 12))
    users, items = torch.LongTensor(classes(40, 10)), torch.LongTensor(classes(40, 12, seed=1))
    ratings = torch.DoubleTensor(numbers(40, seed=2)).clamp(-2, 2) + 3
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)

    def train_epoch(users, items, ratings):
        model.train()
        y_hat = model(users, items)
        loss = torch.nn.functional.huber_loss(y_hat, ratings, delta=0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train_epoch = torch.compile(train_epoch) if compiled else train_epoch
    best, out = float("inf"), []
    for _ in range(20):
        out.append(train_epoch(users, items, ratings).item())
        best = min(best, out[-1])
        scheduler.step(out[-1])
    return out + [best, optimizer.param_groups[0]["lr"]]
