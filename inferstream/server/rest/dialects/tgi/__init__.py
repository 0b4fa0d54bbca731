"""Text Generation Inference's routes, and the plain `/generate` that shares a path with them."""
