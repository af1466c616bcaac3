"""A perceptron for 28 x 28 digits: 784-512-512-10, batches of 64, Adam."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import fill, images, train


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(28 * 28, 512)
        self.fc2 = nn.Linear(512, 512)
        self.fc3 = nn.Linear(512, 10)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        x = x.view(-1, 28 * 28)
        x = self.dropout(F.relu(self.fc1(x)))
        x = self.dropout(F.relu(self.fc2(x)))
        return self.fc3(x)


def main(compiled, steps):
    x, y = images(4 * 64, 1, 28, 28)
    batches = list(zip(torch.from_numpy(x).split(64), torch.from_numpy(y).split(64)))
    model = fill(torch, Net())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(data, target):
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        return loss

    return train(torch, compiled, step, batches, steps)
