"""A warm-up, weight decay for weights only, early stopping on a validation loss without gradients."""

import wengert as wg
from wengert import nn

wg.manual_seed(15)
net = nn.Sequential(nn.Linear(7, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 1))
decay = [p for p in net.parameters() if p.ndim > 1]
other = [p for p in net.parameters() if p.ndim < 2]
opt = wg.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}], lr=0.0)
x, v = wg.randn((64, 7)), wg.randn((32, 7))
best = float("inf")
for step in range(4):
    for group in opt.param_groups:
        group["lr"] = 1e-3 * min(1.0, (step + 1) / 2)
    loss = (net(x)[:, 0] - x[:, 0]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with wg.no_grad():
        now = (net(v)[:, 0] - v[:, 0]).square().mean().item()
    net.train()
    best = min(best, now)
