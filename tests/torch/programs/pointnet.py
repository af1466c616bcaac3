"""Points: shared perceptrons, a learned transform near the identity, maximum over points, feature regularisation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class STN3d(nn.Module):
    def __init__(self):
        super(STN3d, self).__init__()
        self.conv1, self.fc1 = nn.Conv1d(3, 8, 1), nn.Linear(8, 9)
        self.bn1 = nn.BatchNorm1d(8)

    def forward(self, x):
        batchsize = x.size()[0]
        x = F.relu(self.bn1(self.conv1(x)))
        x = torch.max(x, 2, keepdim=True)[0]
        x = self.fc1(x.view(-1, 8))
        iden = torch.eye(3, dtype=x.dtype).flatten().view(1, 9).repeat(batchsize, 1)
        return (x + iden).view(-1, 3, 3)


def feature_transform_regularizer(trans):
    d = trans.size()[1]
    I = torch.eye(d, dtype=trans.dtype)[None, :, :]
    return torch.mean(torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - I, dim=(1, 2)))


def main(compiled):
    stn, conv, head = STN3d(), nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 3)
    model = fill(torch, nn.ModuleList([stn, conv, head]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.999))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(points, target):
        points = points.transpose(2, 1)
        trans = stn(points)
        x = torch.bmm(points.transpose(2, 1), trans).transpose(2, 1)
        x = torch.max(conv(x), 2)[0]
        loss = F.nll_loss(F.log_softmax(head(x), dim=-1), target) + feature_transform_regularizer(trans) * 0.001
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for i in range(12):
        out.append(step(torch.tensor(numbers(4, 10, 3, seed=i)), torch.tensor(classes(4, 3, seed=i))).item())
        scheduler.step()
    return out
