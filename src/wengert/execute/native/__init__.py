"""Native code: graphs compiled to plans of kernels."""
