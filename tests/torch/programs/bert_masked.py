"""A masked language model: tied embeddings, segment ids, an additive mask, loss at masked places only."""

import torch
from torch import nn

from common import classes, fill


class BertLite(nn.Module):
    def __init__(self, vocab=14, dim=8, heads=2, layers=2, max_len=10):
        super().__init__()
        self.word, self.position, self.segment = (
            nn.Embedding(vocab, dim, padding_idx=0),
            nn.Embedding(max_len, dim),
            nn.Embedding(2, dim),
        )
        self.norm = nn.LayerNorm(dim, eps=1e-12)
        self.attention = nn.ModuleList([nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers)])
        self.ffn = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim)) for _ in range(layers)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2 * layers)])
        self.decoder = nn.Linear(dim, vocab, bias=False)
        self.decoder.weight = self.word.weight
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids, segments):
        positions = torch.arange(ids.size(1), dtype=torch.long).unsqueeze(0).expand_as(ids)
        x = self.norm(self.word(ids) + self.position(positions) + self.segment(segments))
        pad = ids.eq(0)
        for i, (attention, ffn) in enumerate(zip(self.attention, self.ffn)):
            y, weights = attention(x, x, x, key_padding_mask=pad)
            x = self.norms[2 * i](x + y)
            x = self.norms[2 * i + 1](x + ffn(x))
        return self.decoder(x) + self.bias, weights


def main(compiled):
    model = fill(torch, BertLite())
    ids = torch.tensor(classes(4 * 8, 12)).view(4, 8) + 1
    ids[2:, 6:] = 0
    labels = torch.full_like(ids, -100)
    masked = torch.zeros_like(ids).bool()
    masked[:, [1, 4]] = True
    labels[masked] = ids[masked]
    inputs = ids.masked_fill(masked, 13)
    segments = (torch.arange(8) > 3).long().expand(4, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01, eps=1e-6)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=14)

    def step(inputs, segments, labels):
        logits, weights = model(inputs, segments)
        loss = nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, weights.std()

    step = torch.compile(step) if compiled else step
    out = []
    for _ in range(12):
        out += [v.item() for v in step(inputs, segments, labels)]
        scheduler.step()
    return out + [len(list(model.parameters()))]
