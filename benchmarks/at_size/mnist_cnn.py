"""A convolutional net for 28 x 28 digits: two convolutions, pooling, dropout, two linear maps; batches of 64."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import fill, images, train


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def main(compiled, steps):
    x, y = images(4 * 64, 1, 28, 28)
    batches = list(zip(torch.from_numpy(x).split(64), torch.from_numpy(y).split(64)))
    model = fill(torch, Net())
    model.train()
    optimizer = optim.Adadelta(model.parameters(), lr=0.1)

    def step(data, target):
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        return loss

    return train(torch, compiled, step, batches, steps)
