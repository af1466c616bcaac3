"""A code book with a commitment loss."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
enc, dec, book = nn.Linear(6, 2), nn.Linear(2, 6), nn.Embedding(8, 2)
opt = wg.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], lr=1e-3)
for _ in range(3):
    x = wg.randn((16, 6))
    z = enc(x)
    d = ((z[:, None, :] - book.weight[None]) ** 2).sum(axis=-1)
    q = book(d.argmin(axis=1))
    loss = (
        (dec(z + (q - z).detach()) - x).square().mean()
        + (q - z.detach()).square().mean()
        + 0.25 * (q.detach() - z).square().mean()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
