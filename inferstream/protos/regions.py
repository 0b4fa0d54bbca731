"""Tensors that a request leaves in shared memory: their parameters (protocol, Triton's shared memory extension)."""

REGION, SIZE, OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
"""Parameters of an input or a requested output: the name of a registered region, and bytes in it."""
