"""What tests of the memory allocator share."""

import platform

import pytest

PROBE = """
import os
from pathlib import Path
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def kept():
    before = resident()
    tensors = [b"x" * 2**22 for _ in range(8)]
    del tensors
    return resident() - before
"""
"""`kept` makes 32 MiB of tensors, frees them, and returns how many bytes stay with the process."""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these thresholds")
