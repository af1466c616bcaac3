"""What the programs share: data and parameters that are the same under every library."""

import numpy as np


def images(count, *shape, classes=10, seed=0):
    """Images of classes, each around a pattern of its own, as float32, and the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    patterns = rng.normal(size=(classes, *shape))
    return (patterns[labels] + rng.normal(size=(count, *shape))).astype(np.float32), labels


def words(count, vocabulary, seed=0):
    """Numbers of words, the frequent ones first."""
    return np.minimum(np.random.default_rng(seed).zipf(1.3, count) - 1, vocabulary - 1)


def fill(torch, module, seed=0):
    """Give the parameters of a module values that do not depend on the library: normal, by their fan-in; biases 0."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if "bias" in name:
                p.zero_()
            elif p.dim() > 1:
                fan = p.numel() // p.shape[0]
                p.copy_(torch.from_numpy((rng.normal(size=tuple(p.shape)) / fan**0.5).astype(np.float32)))
    return module


def train(torch, compiled, step, batches, steps):
    """Make the steps, by turns with the batches, and return their losses."""
    if compiled:
        step = torch.compile(step)
    return [step(*batches[i % len(batches)]).item() for i in range(steps)]
