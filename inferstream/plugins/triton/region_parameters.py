"""Parameters of tensors in shared memory (Triton shared memory extension)."""

REGION, SIZE, OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
"""Parameters of an input or a requested output: the region's name, and a size and offset in bytes."""
