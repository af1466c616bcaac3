"""Matrix products: planning, packing, the micro-kernel, and the ops that are stacks of them."""
