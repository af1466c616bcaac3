"""Means of embeddings."""

import wengert as wg
from wengert import nn

wg.manual_seed(6)
emb, head = nn.Embedding(50, 8), nn.Linear(8, 3)
opt = wg.optim.Adam([*emb.parameters(), *head.parameters()], lr=1e-2)
ids, y = wg.randint(0, 50, (16, 5)), wg.randint(0, 3, (16,))
for _ in range(3):
    logits = head(emb(ids).mean(axis=1))
    loss = -wg.log_softmax(logits, axis=-1)[wg.arange(16), y].mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
