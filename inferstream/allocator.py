"""Settings of the memory allocator: the memory of freed tensors is used again, not returned to the kernel."""

import os
import sys

M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1

THRESHOLDS = {
    M_MMAP_THRESHOLD: 32 * 2**20,  # the most that glibc accepts
    M_TRIM_THRESHOLD: 128 * 2**20,
}
"""Bytes from which a buffer has pages of its own, and free bytes at the end of the heap that go back to the kernel.

A page from the kernel is cleared and mapped anew, and a tensor has one for each 4 KiB.
"""

VARIABLES = {"MALLOC_MMAP_THRESHOLD_": "", "MALLOC_TRIM_THRESHOLD_": "", "GLIBC_TUNABLES": "glibc.malloc."}
"""By what an operator may have chosen the thresholds, if its value has this text."""


def keep_freed_memory() -> None:
    """Raise glibc's thresholds, unless the environment has them. Without glibc nothing happens."""
    if sys.platform != "linux" or _chosen():
        return
    import ctypes  # late: it is slow to import

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl has no such function
        return
    for parameter, value in THRESHOLDS.items():
        mallopt(parameter, value)


def return_freed_memory() -> None:
    """Give freed pages back to the kernel, those between used ones too. Without glibc nothing happens."""
    import ctypes

    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def _chosen() -> bool:
    return any(name in os.environ and text in os.environ[name] for name, text in VARIABLES.items())
