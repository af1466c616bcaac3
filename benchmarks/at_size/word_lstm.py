"""A word-level language model: two layers of LSTM, 200 wide, 10 000 words, 20 texts by 35 words, SGD by hand."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import fill, train, words


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.2):
        super(RNNModel, self).__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        decoded = self.decoder(output)
        decoded = decoded.view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


def main(compiled, steps):
    ntokens, bsz, bptt = 10000, 20, 35
    text = torch.from_numpy(words(4 * (bptt + 1) * bsz, ntokens)).view(4, bptt + 1, bsz)
    batches = [(t[:-1], t[1:].reshape(-1)) for t in text]
    model = fill(torch, RNNModel(ntokens, 200, 200, 2))
    criterion = nn.NLLLoss()
    model.train()
    hidden = [model.init_hidden(bsz)]

    def step(data, targets):
        model.zero_grad()
        state = tuple(h.detach() for h in hidden[0])
        output, hidden[0] = model(data, state)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-20.0)
        return loss

    return train(torch, compiled, step, batches, steps)
