"""The functions of :mod:`wengert.torch.nn.functional` by kind; every module lists its own in `__all__`."""
