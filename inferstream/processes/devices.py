"""The GPUs that worker processes may be given, by the names that `CUDA_VISIBLE_DEVICES` has for them."""

import os
import re
import subprocess
from collections.abc import Iterator

VARIABLE = "CUDA_VISIBLE_DEVICES"

SECONDS = 30.0
"""Time for the driver's tool to answer. It starts the driver where nothing has used it yet."""

_GPU = re.compile(r"GPU (\d+): ")
_PART = re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")


def visible_devices() -> tuple[str, ...]:
    """The devices of this process: those of `CUDA_VISIBLE_DEVICES`, else all that NVIDIA's driver lists.

    A GPU that is divided (MIG) is the UUIDs of its parts, because a process sees one part alone.
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
    """The names in a list in which the parts of a GPU follow it."""
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
