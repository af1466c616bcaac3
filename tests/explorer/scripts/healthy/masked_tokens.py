"""A tokeniser's embedding with a padding row, packed sequences of different lengths, a masked loss."""

import wengert as wg
from wengert import nn

wg.manual_seed(22)
emb, rnn, head = nn.Embedding(12, 8), nn.Linear(16, 8), nn.Linear(8, 12)
opt = wg.optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=1e-3)
tokens = wg.tensor([[1, 4, 2, 0, 0], [3, 3, 5, 7, 2], [6, 2, 0, 0, 0]])
mask = (tokens[:, 1:] != 0).astype(wg.float32)
for _ in range(3):
    h = wg.zeros((3, 8))
    total = 0.0
    for t in range(4):
        h = wg.tanh(rnn(wg.concat([emb(tokens[:, t]), h], axis=1)))
        logp = wg.log_softmax(head(h), axis=-1)
        total = total - (logp[wg.arange(3), tokens[:, t + 1]] * mask[:, t]).sum()
    loss = total / mask.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
