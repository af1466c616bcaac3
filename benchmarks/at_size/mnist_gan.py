"""A generative adversarial net of 28 x 28 digits, linear maps and batch norms: batches of 64, an Adam for each."""

import numpy as np
import torch
import torch.nn as nn

from common import fill, images, train


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(100, 128, normalize=False),
            *block(128, 256),
            *block(256, 512),
            *block(512, 1024),
            nn.Linear(1024, 784),
            nn.Tanh(),
        )

    def forward(self, z):
        img = self.model(z)
        return img.view(img.size(0), 1, 28, 28)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.model = nn.Sequential(
            nn.Linear(784, 512),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(512, 256),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(256, 1),
            nn.Sigmoid(),
        )

    def forward(self, img):
        return self.model(img.view(img.size(0), -1))


def main(compiled, steps):
    x = torch.tanh(torch.from_numpy(images(4 * 64, 1, 28, 28)[0])).split(64)
    z = torch.from_numpy(np.random.default_rng(1).normal(0, 1, (4 * 64, 100)).astype(np.float32)).split(64)
    adversarial_loss = torch.nn.BCELoss()
    generator, discriminator = fill(torch, Generator()), fill(torch, Discriminator())
    optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def step(real_imgs, z):
        valid, fake = torch.ones(real_imgs.size(0), 1), torch.zeros(real_imgs.size(0), 1)
        optimizer_G.zero_grad()
        gen_imgs = generator(z)
        g_loss = adversarial_loss(discriminator(gen_imgs), valid)
        g_loss.backward()
        optimizer_G.step()
        optimizer_D.zero_grad()
        real_loss = adversarial_loss(discriminator(real_imgs), valid)
        fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
        d_loss = (real_loss + fake_loss) / 2
        d_loss.backward()
        optimizer_D.step()
        return g_loss + d_loss

    return train(torch, compiled, step, list(zip(x, z)), steps)
