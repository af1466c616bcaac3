"""Down, up, and a skip between them."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.mid = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = nn.functional.relu(self.down(x))
        b = nn.functional.relu(self.mid(nn.functional.avg_pool2d(a, 2)))
        return self.out(wg.concat([a, self.up(b)], axis=1))


net = UNet()
opt = wg.optim.AdamW(net.parameters(), lr=1e-3)
x = wg.randn((2, 1, 8, 8))
for _ in range(2):
    loss = ((net(x) - x) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
