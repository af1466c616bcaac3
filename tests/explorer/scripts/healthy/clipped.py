"""A recurrent network, its gradients clipped, with weight decay."""

import wengert as wg

wg.manual_seed(0)
cell, head = wg.nn.GRU(3, 16, batch_first=True), wg.nn.Linear(16, 1)
parameters = [*cell.parameters(), *head.parameters()]
optimizer = wg.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)
x, y = wg.randn((8, 12, 3)), wg.randn((8, 1))
for _ in range(3):
    out, _ = cell(x)
    loss = ((head(out[:, -1]) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    wg.nn.utils.clip_grad_norm_(parameters, 0.1)
    optimizer.step()
