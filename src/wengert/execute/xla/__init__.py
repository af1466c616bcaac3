"""XLA as an engine: traced graphs lowered to JAX's public functions, compiled by `jax.jit`, on CPUs, GPUs and TPUs."""
