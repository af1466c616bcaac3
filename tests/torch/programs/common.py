"""What the programs share: numbers that are the same under every library."""

import numpy as np


def numbers(*shape, seed=0, scale=1.0):
    """Normal numbers as float64."""
    return np.random.default_rng(seed).normal(size=shape) * scale


def classes(count, n, seed=0):
    """Integers below n."""
    return np.random.default_rng(seed).integers(0, n, count)


def fill(torch, module, scale=0.5, seed=0):
    """Give the parameters of a module values that do not depend on the library, in double precision."""
    module.double()
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            fan = max(1, p.numel() // p.shape[0]) if p.dim() > 1 else 4
            p.copy_(torch.from_numpy(rng.normal(size=tuple(p.shape)) * scale / fan**0.5))
    return module
