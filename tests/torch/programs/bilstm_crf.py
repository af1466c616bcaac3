"""A tagger whose transitions are trained: log-sum-exp over time, a score by indexing, Viterbi decoding."""

import torch
import torch.nn as nn

from common import classes, fill


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab, tags, emb, hidden):
        super(BiLSTM_CRF, self).__init__()
        self.hidden_dim = hidden
        self.word_embeds = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hidden // 2, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden, tags)
        self.transitions = nn.Parameter(torch.randn(tags, tags))
        self.start, self.stop = tags - 2, tags - 1

    def features(self, sentence):
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, _ = self.lstm(embeds)
        return self.hidden2tag(lstm_out.view(len(sentence), self.hidden_dim))

    def forward_alg(self, feats):
        alpha = torch.full((feats.size(1),), -10000.0, dtype=feats.dtype)
        alpha[self.start] = 0.0
        for feat in feats:
            alpha = torch.logsumexp(alpha.unsqueeze(0) + self.transitions, dim=1) + feat
        return torch.logsumexp(alpha + self.transitions[self.stop], dim=0)

    def score(self, feats, tags):
        tags = torch.cat([torch.tensor([self.start], dtype=torch.long), tags])
        score = torch.zeros(1, dtype=feats.dtype)
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[self.stop, tags[-1]]

    def neg_log_likelihood(self, sentence, tags):
        feats = self.features(sentence)
        return self.forward_alg(feats) - self.score(feats, tags)

    def viterbi(self, sentence):
        feats, backs = self.features(sentence), []
        v = torch.full((feats.size(1),), -10000.0, dtype=feats.dtype)
        v[self.start] = 0
        for feat in feats:
            best, idx = (v.unsqueeze(0) + self.transitions).max(1)
            v = best + feat
            backs.append(idx.tolist())
        best = int((v + self.transitions[self.stop]).argmax())
        path = [best]
        for idx in reversed(backs):
            path.append(idx[path[-1]])
        return path[:-1][::-1]


def main(compiled):
    model = fill(torch, BiLSTM_CRF(9, 5, 4, 6))
    model.transitions.data[3, :] = -10000
    model.transitions.data[:, 4] = -10000
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
    data = [(torch.tensor(classes(6, 9, seed=i)), torch.tensor(classes(6, 3, seed=20 + i))) for i in range(2)]

    def step(sentence, tags):
        model.zero_grad()
        loss = model.neg_log_likelihood(sentence, tags)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    losses = [step(*data[i % 2]).item() for i in range(10)]
    with torch.no_grad():
        return losses + [float(t) for t in model.viterbi(data[0][0])]
