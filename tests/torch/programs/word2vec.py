"""Skip-grams with negative samples: bmm of embeddings, logsigmoid, sparse table weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill


class SkipGramNeg(nn.Module):
    def __init__(self, n_vocab, n_embed):
        super().__init__()
        self.in_embed = nn.Embedding(n_vocab, n_embed)
        self.out_embed = nn.Embedding(n_vocab, n_embed)
        self.in_embed.weight.data.uniform_(-1, 1)
        self.out_embed.weight.data.uniform_(-1, 1)


class NegativeSamplingLoss(nn.Module):
    def forward(self, input_vectors, output_vectors, noise_vectors):
        batch_size, embed_size = input_vectors.shape
        input_vectors = input_vectors.view(batch_size, embed_size, 1)
        output_vectors = output_vectors.view(batch_size, 1, embed_size)
        out_loss = torch.bmm(output_vectors, input_vectors).sigmoid().log().squeeze()
        noise_loss = F.logsigmoid(torch.bmm(noise_vectors.neg(), input_vectors)).squeeze().sum(1)
        return -(out_loss + noise_loss).mean()


def main(compiled):
    model, criterion = fill(torch, SkipGramNeg(20, 5)), NegativeSamplingLoss()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)

    def step(inputs, targets, noise):
        loss = criterion(
            model.in_embed(inputs), model.out_embed(targets), model.out_embed(noise).view(inputs.size(0), 3, -1)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [
        step(*(torch.LongTensor(classes(n, 20, seed=3 * i + k)) for k, n in enumerate((8, 8, 24)))).item()
        for i in range(20)
    ]
