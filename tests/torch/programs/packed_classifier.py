"""Sequences of different lengths: sorted, packed, LSTM, unpacked, attention over the last layer with a mask."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from common import classes, fill


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4, padding_idx=0)
        self.rnn = nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.attention, self.fc = nn.Linear(10, 1), nn.Linear(10, 3)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embedding(text), lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, cell) = self.rnn(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        scores = self.attention(output).squeeze(2).masked_fill(text == 0, -1e9)
        context = torch.bmm(F.softmax(scores, 1).unsqueeze(1), output).squeeze(1)
        return self.fc(context + torch.cat((hidden[-2], hidden[-1]), dim=1))


def main(compiled):
    lengths = [6, 3, 5, 2]
    text = pad_sequence([torch.tensor(classes(n, 9, seed=n)) + 1 for n in lengths], batch_first=True)
    y = torch.tensor(classes(4, 3))
    model = fill(torch, Model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(text, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text, torch.tensor(lengths)), y)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(text, y).item() for _ in range(12)]
