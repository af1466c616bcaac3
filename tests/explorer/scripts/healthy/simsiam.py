"""SimSiam: each view predicts the other's projection, which is stopped."""

import wengert as wg
from wengert import nn

wg.manual_seed(5)
encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
predictor = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
opt = wg.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05)


def similarity(p, z):
    p, z = p / wg.linalg.vector_norm(p, axis=1, keepdims=True), z / wg.linalg.vector_norm(z, axis=1, keepdims=True)
    return (p * z).sum(axis=1).mean()


for _ in range(3):
    x = wg.randn((32, 8))
    z1, z2 = encoder(x + 0.1 * wg.randn((32, 8))), encoder(x + 0.1 * wg.randn((32, 8)))
    p1, p2 = predictor(z1), predictor(z2)
    loss = -0.5 * (similarity(p1, wg.stop_gradient(z2)) + similarity(p2, wg.stop_gradient(z1)))
    opt.zero_grad()
    loss.backward()
    opt.step()
