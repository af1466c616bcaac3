"""An embedding learned from triplets and pairs, with distances and a margin."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


class EmbeddingNet(nn.Module):
    def __init__(self):
        super(EmbeddingNet, self).__init__()
        self.convnet = nn.Sequential(
            nn.Conv1d(1, 3, 3), nn.PReLU(), nn.MaxPool1d(2, stride=2), nn.Conv1d(3, 4, 2), nn.PReLU()
        )
        self.fc = nn.Sequential(nn.Linear(4 * 4, 8), nn.PReLU(), nn.Linear(8, 3))

    def forward(self, x):
        output = self.convnet(x)
        output = output.view(output.size()[0], -1)
        return F.normalize(self.fc(output), p=2, dim=1)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        d = F.pairwise_distance(output1, output2, keepdim=True)
        return torch.mean((1 - label) * torch.pow(d, 2) + label * torch.pow(torch.clamp(self.margin - d, min=0.0), 2))


def main(compiled):
    net = fill(torch, EmbeddingNet())
    optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
    triplet, contrastive = nn.TripletMarginLoss(margin=1.0, p=2), ContrastiveLoss()
    anchor, positive, negative = (torch.tensor(numbers(6, 1, 12, seed=i)) for i in range(3))
    label = torch.tensor([0, 1, 0, 1, 1, 0]).double().unsqueeze(1)

    def step(a, p, n):
        optimizer.zero_grad()
        ea, ep, en = net(a), net(p), net(n)
        loss = triplet(ea, ep, en) + contrastive(ea, ep, label) + (1 - F.cosine_similarity(ea, ep)).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(anchor, positive, negative).item() for _ in range(20)]
