"""A variational autoencoder."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(20, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x):
        h = wg.tanh(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + wg.exp(0.5 * logvar) * wg.randn(mu.shape)
        return self.dec(z), mu, logvar


model = VAE()
opt = wg.optim.Adam(model.parameters(), lr=1e-3)
data = (wg.rand((64, 20)) > 0.5).astype("float32")
for epoch in range(3):
    logits, mu, logvar = model(data)
    bce = nn.functional.binary_cross_entropy_with_logits(logits, data)
    kl = -0.5 * (1 + logvar - mu**2 - wg.exp(logvar)).sum(axis=-1).mean()
    loss = bce + 0.1 * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
