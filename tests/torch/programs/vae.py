"""A variational autoencoder whose noise is given, with the loss summed by hand."""

import torch
from torch import nn, optim
from torch.nn import functional as F

from common import fill, numbers


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(20, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 20)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 20))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 20), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def main(compiled):
    model = fill(torch, VAE())
    optimizer = optim.Adam(model.parameters(), lr=1e-2, betas=(0.5, 0.999))
    data = torch.sigmoid(torch.tensor(numbers(16, 4, 5)))

    def train(data, eps):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data, eps)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        optimizer.step()
        return loss

    train = torch.compile(train) if compiled else train
    train_loss, losses = 0, []
    for i in range(20):
        eps = torch.tensor(numbers(16, 3, seed=i))
        loss = train(data, eps)
        train_loss += loss.item()
        losses.append(loss.item() / len(data))
    return losses + [train_loss]
