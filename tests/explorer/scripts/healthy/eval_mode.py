"""Training with dropout and batch statistics, then an evaluation in eval mode."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
opt = wg.optim.AdamW(net.parameters(), lr=1e-3)
x, y = wg.randn((64, 8)), wg.arange(64) % 3
for _ in range(3):
    net.train()
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    correct = (wg.argmax(net(x), axis=-1) == y).sum().item()
    print(f"{loss.item():.3f} {correct}/64")
