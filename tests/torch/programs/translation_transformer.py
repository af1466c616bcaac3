"""nn.Transformer for translation: masks of both kinds, shifted targets, label smoothing, Noam schedule, greedy decoding."""

import math

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import Transformer

from common import classes, fill

PAD, BOS, EOS = 0, 1, 2


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, emb_size):
        super(TokenEmbedding, self).__init__()
        self.embedding, self.emb_size = nn.Embedding(vocab_size, emb_size), emb_size

    def forward(self, tokens: Tensor):
        return self.embedding(tokens.long()) * math.sqrt(self.emb_size)


class Seq2SeqTransformer(nn.Module):
    def __init__(self, layers, emb_size, nhead, vocab):
        super(Seq2SeqTransformer, self).__init__()
        self.transformer = Transformer(
            d_model=emb_size,
            nhead=nhead,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dim_feedforward=12,
            dropout=0.0,
        )
        self.generator = nn.Linear(emb_size, vocab)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(vocab, emb_size), TokenEmbedding(vocab, emb_size)

    def forward(self, src, trg, tgt_mask, src_padding_mask, tgt_padding_mask):
        outs = self.transformer(
            self.src_tok_emb(src),
            self.tgt_tok_emb(trg),
            None,
            tgt_mask,
            None,
            src_padding_mask,
            tgt_padding_mask,
            src_padding_mask,
        )
        return self.generator(outs)

    def encode(self, src):
        return self.transformer.encoder(self.src_tok_emb(src), None)

    def decode(self, tgt, memory, tgt_mask):
        return self.transformer.decoder(self.tgt_tok_emb(tgt), memory, tgt_mask)


def main(compiled):
    V = 9
    model = fill(torch, Seq2SeqTransformer(1, 8, 2, V))
    src = torch.tensor(classes(5 * 3, V - 3)).view(5, 3) + 3
    tgt = torch.cat(
        [torch.full((1, 3), BOS), torch.tensor(classes(4 * 3, V - 3, seed=1)).view(4, 3) + 3, torch.full((1, 3), EOS)]
    )
    src[3:, 1], tgt[4:, 2] = PAD, PAD
    loss_fn = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: 8**-0.5 * min((s + 1) ** -0.5, (s + 1) * 40**-1.5)
    )

    def step(src, tgt):
        tgt_input = tgt[:-1, :]
        tgt_mask = model.transformer.generate_square_subsequent_mask(tgt_input.shape[0]).double()
        logits = model(src, tgt_input, tgt_mask, (src == PAD).transpose(0, 1), (tgt_input == PAD).transpose(0, 1))
        optimizer.zero_grad()
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for _ in range(12):
        out.append(step(src, tgt).item())
        schedule.step()
    model.eval()
    with torch.no_grad():
        memory, ys = model.encode(src[:, :1]), torch.ones(1, 1).fill_(BOS).type(torch.long)
        for _ in range(3):
            mask = Transformer.generate_square_subsequent_mask(ys.size(0)).double()
            prob = model.generator(model.decode(ys, memory, mask).transpose(0, 1)[:, -1])
            _, next_word = torch.max(prob, dim=1)
            ys = torch.cat([ys, torch.ones(1, 1).type_as(src.data).fill_(next_word.item())], dim=0)
    return out + ys.flatten().tolist()
