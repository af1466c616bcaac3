"""An embedding whose table is also the last layer."""

import wengert as wg
from wengert import nn

wg.manual_seed(10)


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16)
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, i):
        return self.head(wg.nn.functional.gelu(self.mix(self.emb(i))))


m = LM()
opt = wg.optim.AdamW(m.parameters(), lr=1e-3)
i, t = wg.randint(0, 30, (8, 6)), wg.randint(0, 30, (8, 6))
for _ in range(3):
    lp = wg.log_softmax(m(i), axis=-1)
    loss = -wg.take_along_axis(lp, t[..., None], axis=-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
