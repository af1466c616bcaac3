"""A convolutional autoencoder with transposed convolutions and mean squared error."""

import torch
from torch import nn
from torch.autograd import Variable

from common import fill, numbers


class autoencoder(nn.Module):
    def __init__(self):
        super(autoencoder, self).__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=3, padding=1),
            nn.ReLU(True),
            nn.MaxPool2d(2, stride=2),
            nn.Conv2d(4, 3, 3, stride=2, padding=1),
            nn.ReLU(True),
            nn.MaxPool2d(2, stride=1),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(3, 4, 3, stride=2),
            nn.ReLU(True),
            nn.ConvTranspose2d(4, 3, 5, stride=3, padding=1),
            nn.ReLU(True),
            nn.ConvTranspose2d(3, 1, 2, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main(compiled):
    model = fill(torch, autoencoder())
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5)

    def step(img):
        img = Variable(img)
        output = model(img)
        loss = criterion(output, img)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(torch.tensor(numbers(3, 1, 28, 28, seed=i, scale=0.5))).item() for i in range(12)]
