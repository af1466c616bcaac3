"""Sentences by convolutions of several widths and a maximum over time; weight of classes; top-2 accuracy."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill


class CNN_Text(nn.Module):
    def __init__(self, V=15, D=6, C=3, Co=4, Ks=(2, 3)):
        super(CNN_Text, self).__init__()
        self.embed = nn.Embedding(V, D, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv2d(1, Co, (K, D)) for K in Ks])
        self.dropout = nn.Dropout(0.0)
        self.fc1 = nn.Linear(len(Ks) * Co, C)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.fc1(self.dropout(torch.cat(x, 1)))


def main(compiled):
    model = fill(torch, CNN_Text())
    x, y = torch.tensor(classes(6 * 7, 15)).view(6, 7), torch.tensor(classes(6, 3))
    optimizer = torch.optim.RAdam(model.parameters(), lr=0.01)

    def train(x, y):
        optimizer.zero_grad()
        logit = model(x)
        loss = F.cross_entropy(logit, y, weight=torch.tensor([1.0, 0.5, 2.0]).double())
        loss.backward()
        optimizer.step()
        return loss

    train = torch.compile(train) if compiled else train
    out = [train(x, y).item() for _ in range(15)]
    with torch.no_grad():
        _, pred = model(x).topk(2, 1, True, True)
        correct = pred.t().eq(y.view(1, -1).expand_as(pred.t()))
        return out + [correct[:2].reshape(-1).float().sum(0).item()]
