"""`torch._functorch`: paths of PyTorch's transforms that programs import from; see :mod:`wengert.torch.func`."""
