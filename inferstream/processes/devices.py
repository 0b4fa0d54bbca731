"""The GPUs available to worker processes, as named in `CUDA_VISIBLE_DEVICES`."""

import os
import re
import subprocess
from collections.abc import Iterator

VARIABLE = "CUDA_VISIBLE_DEVICES"

SECONDS = 30.0
"""The timeout of the driver tool, in seconds. It may have to initialise the driver."""

_GPU = re.compile(r"GPU (\d+): ")
_PART = re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")


def visible_devices() -> tuple[str, ...]:
    """Return the devices of this process, from `CUDA_VISIBLE_DEVICES` or, if it is unset, from the NVIDIA driver.

    A partitioned GPU (MIG) is listed as the UUIDs of its partitions, because a process can use only one of
    them.
    """
    own = os.environ.get(VARIABLE)
    if own is not None:
        return tuple(name.strip() for name in own.split(",") if name.strip())
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=SECONDS, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(_names(listed))


def _names(listed: str) -> Iterator[str]:
    """Yield the names in the output of the driver tool, in which MIG partitions follow their GPU."""
    whole: str | None = None
    for line in listed.splitlines():
        if part := _PART.match(line):
            whole = None
            yield part[1]
        elif gpu := _GPU.match(line):
            if whole is not None:
                yield whole
            whole = gpu[1]
    if whole is not None:
        yield whole
