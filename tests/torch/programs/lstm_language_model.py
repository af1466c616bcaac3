"""A word model: embedding, LSTM with hidden state carried and detached, clipping, perplexity."""

import math

import torch
import torch.nn as nn

from common import classes, fill


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super(RNNModel, self).__init__()
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.0)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output).view(output.size(0) * output.size(1), output.size(2)))
        return decoded.view(output.size(0), output.size(1), decoded.size(1)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def main(compiled):
    ntokens, bsz, bptt = 11, 4, 5
    data = torch.tensor(classes(4 * 21, ntokens)).view(bsz, -1).t().contiguous()
    model = fill(torch, RNNModel(ntokens, 6, 8, 2))
    criterion = nn.CrossEntropyLoss()
    lr = 0.5

    def step(data, targets, hidden):
        model.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output.view(-1, ntokens), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        return loss, hidden

    step = torch.compile(step) if compiled else step
    losses = []
    for epoch in range(5):
        hidden = model.init_hidden(bsz)
        for i in range(0, data.size(0) - 1, bptt):
            seq_len = min(bptt, len(data) - 1 - i)
            x, y = data[i : i + seq_len], data[i + 1 : i + 1 + seq_len].view(-1)
            hidden = repackage_hidden(hidden)
            loss, hidden = step(x, y, hidden)
            losses.append(loss.item())
    return losses + [math.exp(losses[-1])]
