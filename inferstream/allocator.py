"""Settings of the memory allocator: the memory of freed tensors is used again, not returned to the kernel."""

import os
import sys

THRESHOLDS = {
    -3: 32
    * 2**20,  # M_MMAP_THRESHOLD: buffers of so many bytes have pages of their own; glibc accepts no more
    -1: 128 * 2**20,  # M_TRIM_THRESHOLD: so many free bytes at the end of the heap go back to the kernel
}
"""Values of `mallopt` by its parameters.

A page that comes back from the kernel is cleared and mapped again, and a tensor has one page for each 4 KiB.
"""

VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""What an operator may have chosen the thresholds by."""


def keep_freed_memory() -> None:
    """Raise glibc's thresholds, unless the environment has them. Without glibc nothing happens."""
    if sys.platform != "linux" or any(name in os.environ for name in VARIABLES):
        return
    import ctypes  # late: it is slow to import

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl has no such function
        return
    for parameter, value in THRESHOLDS.items():
        mallopt(parameter, value)
