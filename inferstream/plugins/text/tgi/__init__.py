"""Routes of Text Generation Inference, and a plain `/generate` on the same path."""
