"""A perceptron with dropout off, batch norm, Adam and a step schedule, written as a script is."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import classes, fill, numbers
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, features=12, hidden=16, out=4):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.bn = nn.BatchNorm1d(hidden)
        self.drop = nn.Dropout(p=0.0)
        self.fc2 = nn.Linear(hidden, out)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = F.relu(self.bn(self.fc1(x)), inplace=True)
        return F.log_softmax(self.fc2(self.drop(x)), dim=1)


def main(compiled):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.from_numpy(numbers(64, 3, 4)), torch.from_numpy(classes(64, 4)).long())
    loader = DataLoader(data, batch_size=16, shuffle=False)
    model = fill(torch, Net()).to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-3)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    criterion = nn.NLLLoss()

    def step(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step)
    losses = []
    for epoch in range(5):
        model.train()
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            losses.append(step(data, target).item())
        scheduler.step()
        model.eval()
        correct = 0
        with torch.no_grad():
            for data, target in loader:
                output = model(data)
                pred = output.max(1, keepdim=True)[1]
                correct += pred.eq(target.view_as(pred)).sum().item()
        losses.append(100.0 * correct / len(loader.dataset))
    return losses
