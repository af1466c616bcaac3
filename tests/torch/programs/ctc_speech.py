"""Speech-like frames to labels: convolution, GRU, log-softmax, CTC loss, greedy decoding."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.bn = nn.BatchNorm1d(8)
        self.rnn = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        x = F.hardtanh(self.bn(self.conv(x)), 0, 20)
        x, _ = self.rnn(x.transpose(1, 2))
        return F.log_softmax(self.fc(x), dim=2).transpose(0, 1)


def main(compiled):
    model = fill(torch, Net())
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.tensor(numbers(3, 4, 10))
    targets = torch.tensor(classes(3 * 4, 4)).view(3, 4) + 1
    input_lengths, target_lengths = torch.tensor([10, 9, 8]), torch.tensor([4, 3, 2])

    def step(x):
        optimizer.zero_grad()
        loss = criterion(model(x), targets, input_lengths, target_lengths)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    losses = [step(x).item() for _ in range(12)]
    with torch.no_grad():
        best = torch.argmax(model(x), dim=2).t()
    return losses + torch.unique_consecutive(best[0]).double().tolist()
