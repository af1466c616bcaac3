"""A transformer's block: attention with a causal mask, layer norms, residual connections."""

import wengert as wg


class Block(wg.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1, self.norm_2 = wg.nn.LayerNorm(width), wg.nn.LayerNorm(width)
        self.qkv, self.out = wg.nn.Linear(width, 3 * width), wg.nn.Linear(width, width)
        self.up, self.down = wg.nn.Linear(width, 4 * width), wg.nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        parts = self.qkv(self.norm_1(x)).reshape((n, t, 3, 4, c // 4))
        q, k, v = (parts[:, :, i].permute((0, 2, 1, 3)) for i in range(3))
        scores = (q @ k.mT) * (c // 4) ** -0.5
        scores = wg.where(wg.tril(wg.ones((t, t))) > 0, scores, -wg.inf)
        mixed = (wg.softmax(scores, axis=-1) @ v).permute((0, 2, 1, 3)).reshape((n, t, c))
        x = x + self.out(mixed)
        return x + self.down(wg.nn.functional.gelu(self.up(self.norm_2(x))))


wg.manual_seed(0)
model = wg.nn.Sequential(Block(32), Block(32), wg.nn.LayerNorm(32), wg.nn.Linear(32, 20))
x, target = wg.randn((2, 8, 32)), wg.arange(16) % 20
loss = wg.nn.functional.cross_entropy(model(x).reshape((16, 20)), target)
loss.backward()
