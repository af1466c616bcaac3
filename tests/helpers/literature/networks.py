"""Neural networks, written out of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack


def cross_entropy(xp: Any, logits: Any, labels: Any) -> Any:
    rows = np.arange(logits.shape[0])
    return -xp.mean(xp.log_softmax(logits, axis=-1)[rows, labels])


def _labelled(n: int, p: int, classes: int) -> Any:
    return lambda d: {"inputs": d.normal(n, p), "labels": d.integers(classes, n)}


@case("Bridle (1990), softmax regression", lambda d: d.normal(4 * 3 + 3) * 0.5, _labelled(10, 4, 3))
def softmax_regression(xp: Any, x: Any, inputs: Any, labels: Any) -> Any:
    weight, bias = unpack(x, (4, 3), (3,))
    return cross_entropy(xp, inputs @ weight + bias, labels) + 0.01 * xp.sum(weight**2)


@case(
    "Rumelhart, Hinton and Williams (1986), Learning representations by back-propagating errors",
    lambda d: d.normal(3 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3) * 0.5,
    _labelled(8, 3, 3),
)
def multilayer_perceptron(xp: Any, x: Any, inputs: Any, labels: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = unpack(x, (3, 5), (5,), (5, 4), (4,), (4, 3), (3,))
    hidden = xp.silu(xp.tanh(inputs @ w1 + b1) @ w2 + b2)
    return cross_entropy(xp, hidden @ w3 + b3, labels)


@case(
    "Glorot, Bordes and Bengio (2011), rectifiers; Hendrycks and Gimpel (2016), GELU; Clevert et al. (2016), ELU",
    lambda d: d.normal(3 * 4 + 4 * 4 + 4 * 4 + 4) * 0.7,
    lambda d: {"inputs": d.normal(7, 3), "y": d.normal(7)},
)
def activations_network(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    w1, w2, w3, out = unpack(x, (3, 4), (4, 4), (4, 4), (4,))
    hidden = xp.elu(xp.gelu(xp.relu(inputs @ w1) @ w2) @ w3)
    return xp.mean((hidden @ out - y) ** 2)


@case(
    "Vaswani et al. (2017), Attention is all you need: one block with layer norm",
    lambda d: d.normal(3 * 16 + 4 * 6 + 6 * 4) * 0.4,
    lambda d: {"tokens": d.normal(2, 5, 4)},
)
def attention_block(xp: Any, x: Any, tokens: Any) -> Any:
    query, key, value, up, down = unpack(x, (4, 4), (4, 4), (4, 4), (4, 6), (6, 4))

    def heads(a: Any) -> Any:
        return xp.moveaxis(a.reshape(2, 5, 2, 2), 2, 1)

    normed = xp.layer_norm(tokens)
    q, k, v = heads(normed @ query), heads(normed @ key), heads(normed @ value)
    scores = q @ k.mT / np.sqrt(2.0)
    causal = xp.asarray(np.tril(np.ones((5, 5), bool)))
    weights = xp.softmax(xp.where(causal, scores, -np.inf), axis=-1)
    mixed = tokens + xp.moveaxis(weights @ v, 1, 2).reshape(2, 5, 4)
    return xp.mean((mixed + xp.gelu(xp.layer_norm(mixed) @ up) @ down) ** 2 * (tokens + 1))


@case(
    "Ba, Kiros and Hinton (2016), Layer normalization; by its formula",
    lambda d: d.normal(3 * 5 + 5 + 5 + 5),
    lambda d: {"inputs": d.normal(6, 3), "y": d.normal(6)},
)
def layer_norm_network(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    weight, gain, bias, out = unpack(x, (3, 5), (5,), (5,), (5,))
    h = inputs @ weight
    centred = h - xp.mean(h, axis=1, keepdims=True)
    normed = centred / xp.sqrt(xp.mean(centred**2, axis=1, keepdims=True) + 1e-5)
    return xp.mean((xp.tanh(normed * gain + bias) @ out - y) ** 2)


@case(
    "LeCun et al. (1989), Backpropagation applied to handwritten zip code recognition",
    lambda d: d.normal(2 * 1 * 9 + 2 * 2 * 4 + 2 * 9 * 3) * 0.5,
    lambda d: {"images": d.normal(2, 1, 10, 10), "labels": d.integers(3, 2)},
)
def convolutional_network(xp: Any, x: Any, images: Any, labels: Any) -> Any:
    first, second, dense = unpack(x, (2, 1, 3, 3), (2, 2, 2, 2), (18, 3))
    h = xp.tanh(xp.conv2d(images, first))
    pooled = xp.max(h.reshape(2, 2, 4, 2, 4, 2), axis=(3, 5))
    h = xp.softplus(xp.conv2d(pooled, second))
    return cross_entropy(xp, h.reshape(2, 18) @ dense, labels)


@case(
    "Elman (1990), Finding structure in time",
    lambda d: d.normal(2 * 4 + 4 * 4 + 4 + 4) * 0.6,
    lambda d: {"sequence": d.normal(6, 2), "targets": d.normal(6)},
)
def recurrent_network(xp: Any, x: Any, sequence: Any, targets: Any) -> Any:
    w, u, b, out = unpack(x, (2, 4), (4, 4), (4,), (4,))
    h, outputs = xp.zeros(4), []
    for t in range(6):
        h = xp.tanh(sequence[t] @ w + h @ u + b)
        outputs.append(h @ out)
    return xp.mean((xp.stack(outputs) - targets) ** 2)


@case(
    "Cho et al. (2014), gated recurrent unit",
    lambda d: d.normal(3 * (2 * 3 + 3 * 3 + 3)) * 0.6,
    lambda d: {"sequence": d.normal(5, 2)},
)
def gated_recurrent_unit(xp: Any, x: Any, sequence: Any) -> Any:
    w, u, b = unpack(x, (3, 2, 3), (3, 3, 3), (3, 3))
    h = xp.zeros(3)
    for t in range(5):
        z = xp.sigmoid(sequence[t] @ w[0] + h @ u[0] + b[0])
        r = xp.sigmoid(sequence[t] @ w[1] + h @ u[1] + b[1])
        h = (1 - z) * h + z * xp.tanh(sequence[t] @ w[2] + (r * h) @ u[2] + b[2])
    return xp.sum(h**2)


@case(
    "He et al. (2016), Deep residual learning; forty layers of one weight",
    lambda d: d.normal(4 * 4 + 4) * 0.3,
    lambda d: {"inputs": d.normal(3, 4)},
)
def deep_residual(xp: Any, x: Any, inputs: Any) -> Any:
    weight, bias = unpack(x, (4, 4), (4,))
    h = inputs
    for _ in range(40):
        h = h + 0.05 * xp.tanh(h @ weight + bias)
    return xp.mean(h**2)


@case(
    "Raissi, Perdikaris and Karniadakis (2019), Physics-informed neural networks: u_xx = f",
    lambda d: d.normal(3 * 5) * 0.8,
    lambda d: {"points": d.uniform(-1, 1, 6)},
)
def physics_informed(xp: Any, x: Any, points: Any) -> Any:
    """The residual holds second inner derivatives, so its Hessian-vector product is of order four."""
    w, b, out = unpack(x, (5,), (5,), (5,))

    def u(t: Any) -> Any:
        return xp.tanh(t[:, None] * w + b) @ out

    first = xp.grad(lambda t: xp.sum(u(t)))
    second = xp.grad(lambda t: xp.sum(first(t)))
    residual = second(points) + xp.sin(xp.pi * points) * u(points)
    edges = u(xp.asarray(np.array([-1.0, 1.0])))
    return xp.mean(residual**2) + xp.sum(edges**2)


@case(
    "Dinh, Sohl-Dickstein and Bengio (2017), Density estimation using Real NVP",
    lambda d: d.normal(2 * (2 * 4 + 4 + 4 * 4)) * 0.4,
    lambda d: {"samples": d.normal(6, 4)},
)
def real_nvp(xp: Any, x: Any, samples: Any) -> Any:
    z, log_det = samples, 0.0
    for w, b, v in (unpack(part, (2, 4), (4,), (4, 4)) for part in (x[:28], x[28:])):
        kept, moved = z[:, :2], z[:, 2:]
        out = xp.tanh(kept @ w + b) @ v
        scale = xp.tanh(out[:, :2])
        log_det = log_det + xp.sum(scale, axis=1)
        z = xp.concat([moved * xp.exp(scale) + out[:, 2:], kept], axis=1)
    return xp.mean(xp.sum(z**2, axis=1) / 2 - log_det)


@case(
    "Rezende and Mohamed (2015), Variational inference with normalizing flows: planar",
    lambda d: d.normal(3 * (3 + 3 + 1)) * 0.5,
    lambda d: {"noise": d.normal(7, 3)},
)
def planar_flow(xp: Any, x: Any, noise: Any) -> Any:
    z, log_det = noise, 0.0
    for layer in range(3):
        w, u, b = unpack(x[7 * layer : 7 * layer + 7], (3,), (3,), (1,))
        inner = w @ u
        u = u + (xp.softplus(inner) - 1 - inner) * w / (w @ w)
        a = xp.tanh(z @ w + b)
        log_det = log_det + xp.log(xp.abs(1 + (1 - a**2) * (w @ u)))
        z = z + a[:, None] * u
    return xp.mean(xp.sum((z - 1) ** 4, axis=1) / 4 - log_det)


@case(
    "Kingma and Welling (2014), Auto-encoding variational Bayes; fixed noise",
    lambda d: d.normal(4 * 3 + 3 * 2 + 3 * 2 + 2 * 4) * 0.5,
    lambda d: {"data": (d.uniform(0, 1, 6, 4) < 0.5).astype(np.float64), "noise": d.normal(6, 2)},
)
def variational_autoencoder(xp: Any, x: Any, data: Any, noise: Any) -> Any:
    encode, to_mean, to_log, decode = unpack(x, (4, 3), (3, 2), (3, 2), (2, 4))
    h = xp.tanh(data @ encode)
    mean, log_variance = h @ to_mean, h @ to_log
    logits = (mean + noise * xp.exp(log_variance / 2)) @ decode
    reconstruction = xp.sum(data * logits - xp.softplus(logits), axis=1)
    divergence = xp.sum(xp.exp(log_variance) + mean**2 - 1 - log_variance, axis=1) / 2
    return xp.mean(divergence - reconstruction)


@case(
    "Chen et al. (2018), Neural ordinary differential equations; RK4",
    lambda d: d.normal(2 * 4 + 4 + 4 * 2) * 0.6,
    lambda d: {"starts": d.normal(4, 2), "ends": d.normal(4, 2)},
)
def neural_ode(xp: Any, x: Any, starts: Any, ends: Any) -> Any:
    w, b, v = unpack(x, (2, 4), (4,), (4, 2))

    def slope(y: Any) -> Any:
        return xp.tanh(y @ w + b) @ v

    y, h = starts, 0.25
    for _ in range(4):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
    return xp.mean((y - ends) ** 2)


@case(
    "Kipf and Welling (2017), Graph convolutional networks",
    lambda d: d.normal(3 * 4 + 4 * 2) * 0.7,
    lambda d: {"features": d.normal(6, 3), "edges": d.integers(6, 2, 9), "labels": d.integers(2, 6)},
)
def graph_convolution(xp: Any, x: Any, features: Any, edges: Any, labels: Any) -> Any:
    w1, w2 = unpack(x, (3, 4), (4, 2))
    ids = xp.asarray(np.arange(6))
    adjacency = xp.where(edges[0][:, None, None] == ids[:, None], 1.0, 0.0) * xp.where(
        edges[1][:, None, None] == ids[None, :], 1.0, 0.0
    )
    a = xp.sum(adjacency, axis=0)
    a = a + a.T + xp.eye(6)
    root = xp.sum(a, axis=1) ** -0.5
    a = root[:, None] * a * root[None, :]
    return cross_entropy(xp, a @ xp.relu(a @ features @ w1) @ w2, labels)


@case(
    "Finn, Abbeel and Levine (2017), Model-agnostic meta-learning: through a gradient step",
    lambda d: d.normal(3 + 1) * 0.6,
    lambda d: {"support": d.normal(5, 3), "y": d.normal(5), "query": d.normal(4, 3), "z": d.normal(4)},
)
def meta_learning(xp: Any, x: Any, support: Any, y: Any, query: Any, z: Any) -> Any:
    weights, rate = x[:3], 0.1 * xp.exp(x[3])
    loss = lambda w: xp.mean((xp.tanh(support @ w) - y) ** 2)
    for _ in range(2):
        weights = weights - rate * xp.grad(loss)(weights)
    return xp.mean((xp.tanh(query @ weights) - z) ** 2)


@case(
    "Gulrajani et al. (2017), Improved training of Wasserstein GANs: the gradient penalty",
    lambda d: d.normal(2 * 5 + 5 + 5) * 0.7,
    lambda d: {"real": d.normal(6, 2), "fake": d.normal(6, 2), "mix": d.uniform(0, 1, 6, 1)},
)
def gradient_penalty(xp: Any, x: Any, real: Any, fake: Any, mix: Any) -> Any:
    w, b, out = unpack(x, (2, 5), (5,), (5,))
    critic = lambda s: xp.softplus(s @ w + b) @ out
    slopes = xp.grad(lambda s: xp.sum(critic(s)))(mix * real + (1 - mix) * fake)
    norm = xp.sqrt(xp.sum(slopes**2, axis=1))
    return xp.mean(critic(fake)) - xp.mean(critic(real)) + 10 * xp.mean((norm - 1) ** 2)
