"""Parameters in a dict, a gradient as a function, an update of the whole pytree."""

import wengert as wg

wg.manual_seed(19)
params = {"w1": 0.5 * wg.randn((4, 16)), "b1": wg.zeros(16), "w2": 0.25 * wg.randn((16, 1))}
x = wg.randn((32, 4))
y = wg.sin(x[:, :1])


def loss(p):
    return (wg.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y).square().mean()


for _ in range(3):
    value, grads = wg.value_and_grad(loss)(params)
    params = {k: params[k] - 0.1 * grads[k] for k in params}
