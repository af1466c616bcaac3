"""A sine predicted by LSTM cells stepped by hand, trained by LBFGS with a line search, the future predicted."""

import torch
import torch.nn as nn
import torch.optim as optim

from common import fill


class Sequence(nn.Module):
    def __init__(self):
        super(Sequence, self).__init__()
        self.lstm1, self.lstm2 = nn.LSTMCell(1, 5), nn.LSTMCell(5, 5)
        self.linear = nn.Linear(5, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t, c_t = (torch.zeros(input.size(0), 5, dtype=torch.double) for _ in range(2))
        h_t2, c_t2 = (torch.zeros(input.size(0), 5, dtype=torch.double) for _ in range(2))
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


def main(compiled):
    data = torch.sin(torch.arange(0, 3 * 12, dtype=torch.float64).view(3, 12) / 4)
    seq = fill(torch, Sequence())
    seq.double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5, line_search_fn="strong_wolfe")

    def loss_and_gradient(input, target):
        optimizer.zero_grad()
        loss = criterion(seq(input), target)
        loss.backward()
        return loss

    if compiled:
        loss_and_gradient = torch.compile(loss_and_gradient)
    out = []
    for _ in range(3):
        out.append(optimizer.step(lambda: loss_and_gradient(data[:, :-1], data[:, 1:])).item())
    with torch.no_grad():
        pred = seq(data[:1, :-1], future=4)
    return out + pred[0, -4:].detach().numpy().tolist()
