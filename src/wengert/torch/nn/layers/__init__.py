"""The layers of :mod:`wengert.torch.nn` by kind; every module lists its classes in `__all__`."""
