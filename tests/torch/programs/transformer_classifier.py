"""A text classifier: packed lengths as a padding mask, nn.TransformerEncoder, sinusoidal positions in a buffer."""

import math

import torch
from torch import nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer

from common import classes, fill


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class Model(nn.Module):
    def __init__(self, ntoken, d_model, nhead, d_hid, nlayers, nclass):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model)
        self.transformer_encoder = TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, d_hid, dropout=0.0), nlayers, enable_nested_tensor=False
        )
        self.embedding = nn.Embedding(ntoken, d_model, padding_idx=0)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, nclass)

    def forward(self, src, lengths):
        mask = torch.arange(src.size(0))[None, :] >= lengths[:, None]
        x = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        out = self.transformer_encoder(x, src_key_padding_mask=mask)
        keep = (~mask).t().unsqueeze(-1).to(out.dtype)
        return self.linear((out * keep).sum(0) / keep.sum(0))


def main(compiled):
    model = fill(torch, Model(12, 8, 2, 16, 2, 3))
    with torch.no_grad():
        model.embedding.weight[0].fill_(0)
    lengths = torch.tensor([7, 4, 5, 2])
    src = torch.tensor(classes(28, 11)).view(7, 4) + 1
    src[torch.arange(7)[:, None] >= lengths[None, :]] = 0
    y = torch.tensor(classes(4, 3, seed=9))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) ** -0.5, (s + 1) * 4**-1.5))
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64))

    def step(src, lengths, y):
        optimizer.zero_grad()
        loss = criterion(model(src, lengths), y)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for _ in range(20):
        out.append(step(src, lengths, y).item())
        scheduler.step()
    return out + scheduler.get_last_lr()
