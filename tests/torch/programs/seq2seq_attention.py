"""Encoder and decoder GRUs with attention, teacher forcing, NLL summed over steps."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

from common import classes, fill


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super(EncoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size)

    def forward(self, input, hidden):
        embedded = self.embedding(input).view(1, 1, -1)
        return self.gru(embedded, hidden)

    def initHidden(self):
        return torch.zeros(1, 1, self.hidden_size, dtype=torch.float64)


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, max_length):
        super(AttnDecoderRNN, self).__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attn = nn.Linear(hidden_size * 2, max_length)
        self.attn_combine = nn.Linear(hidden_size * 2, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden, encoder_outputs):
        embedded = self.embedding(input).view(1, 1, -1)
        attn_weights = F.softmax(self.attn(torch.cat((embedded[0], hidden[0]), 1)), dim=1)
        attn_applied = torch.bmm(attn_weights.unsqueeze(0), encoder_outputs.unsqueeze(0))
        output = torch.cat((embedded[0], attn_applied[0]), 1)
        output = F.relu(self.attn_combine(output).unsqueeze(0))
        output, hidden = self.gru(output, hidden)
        return F.log_softmax(self.out(output[0]), dim=1), hidden, attn_weights


def main(compiled):
    max_length, hidden = 6, 5
    encoder, decoder = (
        fill(torch, EncoderRNN(9, hidden), seed=1),
        fill(torch, AttnDecoderRNN(hidden, 8, max_length), seed=2),
    )
    encoder_optimizer = optim.SGD(encoder.parameters(), lr=0.1)
    decoder_optimizer = optim.SGD(decoder.parameters(), lr=0.1)
    criterion = nn.NLLLoss()

    def train(input_tensor, target_tensor):
        encoder_hidden = encoder.initHidden()
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        encoder_outputs = torch.zeros(max_length, encoder.hidden_size, dtype=torch.float64)
        loss = 0
        for ei in range(input_tensor.size(0)):
            encoder_output, encoder_hidden = encoder(input_tensor[ei], encoder_hidden)
            encoder_outputs[ei] += encoder_output[0, 0]
        decoder_input, decoder_hidden = torch.tensor([[0]]), encoder_hidden
        for di in range(target_tensor.size(0)):
            decoder_output, decoder_hidden, _ = decoder(decoder_input, decoder_hidden, encoder_outputs)
            loss += criterion(decoder_output, target_tensor[di])
            decoder_input = target_tensor[di]
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        return loss

    train = torch.compile(train) if compiled else train
    pairs = [
        (
            torch.tensor(classes(5, 9, seed=i), dtype=torch.long).view(-1, 1),
            torch.tensor(classes(4, 8, seed=50 + i)).view(-1, 1),
        )
        for i in range(3)
    ]
    return [train(*pairs[i % 3]).item() / 4 for i in range(15)]
