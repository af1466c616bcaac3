"""An encoder whose code is detached on its way to the loss."""  # finds: missing-gradient

import wengert as wg


class Autoencoder(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = wg.nn.Linear(8, 3)
        self.decoder = wg.nn.Linear(3, 8)

    def forward(self, x):
        code = wg.tanh(self.encoder(x))
        return self.decoder(code.detach())  # here


wg.manual_seed(0)
model = Autoencoder()
x = wg.randn((16, 8))
loss = ((model(x) - x) ** 2).mean()
loss.backward()
