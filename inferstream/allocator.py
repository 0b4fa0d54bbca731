"""Memory allocator settings: reuse the memory of freed tensors instead of returning it to the kernel."""

import os
import sys

M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1

THRESHOLDS = {
    M_MMAP_THRESHOLD: 32 * 2**20,  # the highest value that glibc accepts
    M_TRIM_THRESHOLD: 128 * 2**20,
}
"""The size in bytes from which buffers use mmap, and the free bytes that glibc keeps at the top of the heap.

The kernel has to clear and map each new page of 4 KiB, which is slow for large tensors. See mallopt(3).
"""

VARIABLES = {"MALLOC_MMAP_THRESHOLD_": "", "MALLOC_TRIM_THRESHOLD_": "", "GLIBC_TUNABLES": "glibc.malloc."}
"""Environment variables that override the thresholds if their value contains the given string."""


def keep_freed_memory() -> None:
    """Raise glibc's thresholds, unless environment variables set them. Does nothing without glibc."""
    if sys.platform != "linux" or _chosen():
        return
    import ctypes  # imported lazily: it is slow to import

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl does not have it
        return
    for parameter, value in THRESHOLDS.items():
        mallopt(parameter, value)


def return_freed_memory() -> None:
    """Return all freed pages to the kernel, including pages between used ones. Does nothing without glibc."""
    import ctypes

    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def _chosen() -> bool:
    return any(name in os.environ and text in os.environ[name] for name, text in VARIABLES.items())
