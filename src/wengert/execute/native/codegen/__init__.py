"""Code generation: the builder of LLVM IR, its types, kernels, and the cache of their object code."""
