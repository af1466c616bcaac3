"""The next letter, by an embedding and two linear layers."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
letters = wg.randint(0, 26, (65,))
net = nn.Sequential(nn.Embedding(26, 8), nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 26))
opt = wg.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(letters[:-1]), letters[1:])
    opt.zero_grad()
    loss.backward()
    wg.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
