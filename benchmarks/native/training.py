"""Training: a step is forward, loss, gradients and update on the next of four batches, the state kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from problem import BATCHES, Data, Problem, Rule, Sizes

Rng = np.random.Generator
Loss = Callable[..., Any]


def _task(params: dict[str, Any], batches: list[Any], stats: dict[str, Any] | None = None) -> Data:
    return {"params": params, "batches": batches, "stats": stats or {}}


def _scaled(rng: Rng, *shape: int, gain: float = 2.0) -> np.ndarray:
    """He's start for weights whose fan-in is all axes but the last."""
    return rng.standard_normal(shape) * np.sqrt(gain / np.prod(shape[:-1]))


def _filters(rng: Rng, out: int, inside: int, size: int) -> np.ndarray:
    return rng.standard_normal((out, inside, size, size)) * np.sqrt(2 / (inside * size * size))


# -- a line


def _line_data(rng: Rng, s: Sizes) -> Data:
    xs = [rng.uniform(-1, 1, s["batch"]) for _ in range(BATCHES)]
    return _task({"w": np.array(0.1), "b": np.array(-0.2)}, [(x, 3 * x + 7) for x in xs])


def _line_loss(lib: Any, s: Sizes) -> Loss:
    return lambda p, stats, x, y: (((x * p["w"] + p["b"] - y) ** 2).mean(), stats)


# -- multilayer perceptrons


def perceptron(lib: Any, p: Any, x: Any) -> Any:
    """One hidden layer, rectified."""
    return lib.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def perceptron_params(rng: Rng, s: Sizes) -> dict[str, np.ndarray]:
    """Its weights."""
    inputs, hidden, classes = s["layers"]
    return {
        "w1": _scaled(rng, inputs, hidden),
        "b1": 0.1 * rng.standard_normal(hidden),
        "w2": _scaled(rng, hidden, classes, gain=1.0),
        "b2": 0.1 * rng.standard_normal(classes),
    }


def _perceptron_data(rng: Rng, s: Sizes) -> Data:
    n, (inputs, _, classes) = s["batch"], s["layers"]
    batches = [(rng.standard_normal((n, inputs)), rng.integers(0, classes, n)) for _ in range(BATCHES)]
    return _task(perceptron_params(rng, s), batches)


def _perceptron_loss(lib: Any, s: Sizes) -> Loss:
    return lambda p, stats, x, y: (lib.cross_entropy(perceptron(lib, p, x), y), stats)


def _perceptron_problem(name: str, batch: int, *layers: int) -> Problem:
    shape = "-".join(map(str, layers))
    return Problem(
        name,
        f"perceptron {shape}, cross-entropy, SGD with momentum, batch {batch}",
        {"batch": batch, "layers": layers},
        {"batch": min(batch, 5), "layers": (min(layers[0], 7), min(layers[1], 9), min(layers[2], 3))},
        _perceptron_data,
        Rule(0.05, momentum=0.9),
        _perceptron_loss,
        tolerance=5e-3,
    )


# -- convolutional networks


def network(lib: Any, p: Any, x: Any) -> Any:
    """Two convolutions, pooling, two dense layers."""
    x = lib.relu(lib.conv(x, p["c1"]) + lib.per_channel(p["c1b"]))
    x = lib.relu(lib.conv(x, p["c2"]) + lib.per_channel(p["c2b"]))
    x = lib.flatten(lib.max_pool(x))
    return lib.relu(x @ p["f1"] + p["f1b"]) @ p["f2"] + p["f2b"]


def network_params(rng: Rng, s: Sizes) -> dict[str, np.ndarray]:
    """Its weights."""
    one, two = s["channels"]
    flat = two * ((s["side"] - 4) // 2) ** 2
    return {
        "c1": _filters(rng, one, 1, 3),
        "c1b": 0.1 * rng.standard_normal(one),
        "c2": _filters(rng, two, one, 3),
        "c2b": 0.1 * rng.standard_normal(two),
        "f1": _scaled(rng, flat, s["hidden"]),
        "f1b": 0.1 * rng.standard_normal(s["hidden"]),
        "f2": _scaled(rng, s["hidden"], 10, gain=1.0),
        "f2b": 0.1 * rng.standard_normal(10),
    }


def _network_data(rng: Rng, s: Sizes) -> Data:
    shape = (s["batch"], 1, s["side"], s["side"])
    batches = [(rng.uniform(0, 1, shape), rng.integers(0, 10, s["batch"])) for _ in range(BATCHES)]
    return _task(network_params(rng, s), batches)


def _network_loss(lib: Any, s: Sizes) -> Loss:
    return lambda p, stats, x, y: (lib.cross_entropy(network(lib, p, x), y), stats)


def _residual_layers(s: Sizes) -> dict[str, tuple[int, int, int, int]]:
    """Of every convolution: channels in and out, size, stride."""
    a, b, c = s["channels"]
    return {
        "stem": (3, a, 3, 1),
        "one_a": (a, a, 3, 1), "one_b": (a, a, 3, 1),
        "two_a": (a, b, 3, 2), "two_b": (b, b, 3, 1), "two_s": (a, b, 1, 2),
        "three_a": (b, c, 3, 2), "three_b": (c, c, 3, 1), "three_s": (b, c, 1, 2),
    }  # fmt: skip


def _residual_data(rng: Rng, s: Sizes) -> Data:
    params, stats = {}, {}
    for name, (inside, out, size, _) in _residual_layers(s).items():
        params[name] = _filters(rng, out, inside, size)
        if not name.endswith("_s"):
            params[f"{name}.gain"] = 1 + 0.05 * rng.standard_normal(out)
            params[f"{name}.bias"] = 0.05 * rng.standard_normal(out)
            stats[f"{name}.mean"], stats[f"{name}.variance"] = np.zeros(out), np.ones(out)
    params["head"] = _scaled(rng, s["channels"][-1], 10, gain=1.0)
    params["head.bias"] = np.zeros(10)
    shape = (s["batch"], 3, s["side"], s["side"])
    batches = [(rng.standard_normal(shape), rng.integers(0, 10, s["batch"])) for _ in range(BATCHES)]
    return _task(params, batches, stats)


def _residual_loss(lib: Any, s: Sizes) -> Loss:
    layers = _residual_layers(s)
    rows, columns = (a for a in range(4) if a in lib.image_axes and a != 0)

    def loss(p: Any, stats: Any, x: Any, y: Any) -> Any:
        fresh: dict[str, Any] = {}

        def conv(x: Any, name: str) -> Any:
            return lib.conv(x, p[name], layers[name][3], layers[name][2] // 2)

        def norm(x: Any, name: str) -> Any:
            count = x.shape[0] * x.shape[rows] * x.shape[columns]
            mean = x.mean(lib.image_axes)
            centred = x - lib.per_channel(mean)
            variance = (centred**2).mean(lib.image_axes)
            fresh[f"{name}.mean"] = 0.9 * stats[f"{name}.mean"] + 0.1 * mean
            fresh[f"{name}.variance"] = 0.9 * stats[f"{name}.variance"] + 0.1 * count / (count - 1) * variance
            scale = p[f"{name}.gain"] / lib.fns.sqrt(variance + 1e-5)
            return centred * lib.per_channel(scale) + lib.per_channel(p[f"{name}.bias"])

        def block(x: Any, name: str, shortcut: Any) -> Any:
            inside = lib.relu(norm(conv(x, f"{name}_a"), f"{name}_a"))
            return lib.relu(shortcut + norm(conv(inside, f"{name}_b"), f"{name}_b"))

        x = lib.relu(norm(conv(x, "stem"), "stem"))
        x = block(x, "one", x)
        for name in ("two", "three"):
            x = block(x, name, conv(x, f"{name}_s"))
        return lib.cross_entropy(x.mean((rows, columns)) @ p["head"] + p["head.bias"], y), fresh

    return loss


# -- sequences


def _sequences(rng: Rng, s: Sizes) -> list[Any]:
    rows = [rng.integers(0, s["letters"], (s["batch"], s["length"] + 1)) for _ in range(BATCHES)]
    return [(r[:, :-1].copy(), r[:, 1:].copy()) for r in rows]


def _transformer_data(rng: Rng, s: Sizes) -> Data:
    width, depth = s["width"], s["depth"]
    params = {
        "characters": 0.02 * rng.standard_normal((s["letters"], width)),
        "positions": 0.02 * rng.standard_normal((s["length"], width)),
        "norm": 1 + 0.02 * rng.standard_normal(width),
    }
    for i in range(depth):
        params[f"norm1.{i}"] = 1 + 0.02 * rng.standard_normal(width)
        params[f"norm2.{i}"] = 1 + 0.02 * rng.standard_normal(width)
        params[f"qkv.{i}"] = _scaled(rng, width, 3 * width, gain=0.8)
        params[f"mix.{i}"] = _scaled(rng, width, width, gain=0.4)
        params[f"up.{i}"] = _scaled(rng, width, 4 * width, gain=0.8)
        params[f"down.{i}"] = _scaled(rng, 4 * width, width, gain=0.4)
    return _task(params, _sequences(rng, s))


def _transformer_loss(lib: Any, s: Sizes) -> Loss:
    def loss(p: Any, stats: Any, x: Any, y: Any) -> Any:
        h = p["characters"][x] + p["positions"]
        for i in range(s["depth"]):
            qkv = lib.layer_norm(h, p[f"norm1.{i}"]) @ p[f"qkv.{i}"]
            h = h + lib.self_attention(qkv, s["heads"]) @ p[f"mix.{i}"]
            inside = lib.layer_norm(h, p[f"norm2.{i}"]) @ p[f"up.{i}"]
            h = h + lib.gelu(inside) @ p[f"down.{i}"]
        return lib.cross_entropy(lib.layer_norm(h, p["norm"]) @ p["characters"].mT, y), stats

    return loss


def _recurrent_data(rng: Rng, s: Sizes) -> Data:
    width, letters = s["width"], s["letters"]
    bound = width**-0.5
    params = {"characters": rng.standard_normal((letters, width))}
    shapes = {"wi": (width, 4 * width), "wh": (width, 4 * width), "b": (4 * width,)}
    shapes |= {"head": (width, letters), "head.bias": (letters,)}
    params |= {k: rng.uniform(-bound, bound, shape) for k, shape in shapes.items()}
    return _task(params, _sequences(rng, s))


def _recurrent_loss(lib: Any, s: Sizes) -> Loss:
    def loss(p: Any, stats: Any, x: Any, y: Any) -> Any:
        states = lib.lstm(p["characters"][x.mT], p["wi"], p["wh"], p["b"])
        return lib.cross_entropy(states @ p["head"] + p["head.bias"], y.mT), stats

    return loss


PROBLEMS = [
    Problem(
        "linreg",
        "a line fitted to points, SGD, batch 32",
        {"batch": 32},
        {"batch": 5},
        _line_data,
        Rule(0.1),
        _line_loss,
    ),
    _perceptron_problem("mlp_tiny", 1, 4, 16, 2),
    _perceptron_problem("mlp_small", 32, 64, 64, 10),
    _perceptron_problem("mlp_mnist", 64, 784, 256, 10),
    _perceptron_problem("mlp_wide", 256, 784, 1024, 10),
    Problem(
        "cnn_mnist",
        "two convolutions (32, 64), pooling, two dense layers, Adam, batch 64 of 28 x 28",
        {"batch": 64, "side": 28, "channels": (32, 64), "hidden": 128},
        {"batch": 3, "side": 10, "channels": (3, 5), "hidden": 6},
        _network_data,
        Rule(1e-3, betas=(0.9, 0.999)),
        _network_loss,
        tolerance=3e-2,
    ),
    Problem(
        "resnet8",
        "residual network (16, 32, 64) with batch norm, SGD with momentum, batch 32 of 32 x 32",
        {"batch": 32, "side": 32, "channels": (16, 32, 64)},
        {"batch": 3, "side": 8, "channels": (2, 3, 4)},
        _residual_data,
        Rule(0.05, momentum=0.9),
        _residual_loss,
        tolerance=1e-2,
    ),
    Problem(
        "gpt_mini",
        "transformer of 4 layers, 4 heads, width 128, AdamW, batch 12 x 64",
        {"batch": 12, "length": 64, "width": 128, "heads": 4, "depth": 4, "letters": 65},
        {"batch": 2, "length": 7, "width": 8, "heads": 2, "depth": 1, "letters": 9},
        _transformer_data,
        Rule(1e-3, betas=(0.9, 0.99), decay=0.1),
        _transformer_loss,
        tolerance=3e-2,
    ),
    Problem(
        "lstm_char",
        "LSTM of width 128, Adam, batch 32 x 64",
        {"batch": 32, "length": 64, "width": 128, "letters": 65},
        {"batch": 2, "length": 5, "width": 6, "letters": 7},
        _recurrent_data,
        Rule(1e-3, betas=(0.9, 0.999)),
        _recurrent_loss,
        tolerance=3e-2,
    ),
]
