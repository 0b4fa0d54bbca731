"""Files that settings refer to."""

import os
from pathlib import Path

from ..errors import InvalidSettings

MAX_BYTES = 2**24
"""Maximum size of a file in bytes, enough for about 50,000 client keys."""


def read_file(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file and its status before the read. Raises InvalidSettings."""
    try:
        if not path.is_file():
            raise InvalidSettings(f"{path}: {'not a regular file' if path.exists() else _missing(path)}")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise InvalidSettings(f"{path}: larger than {MAX_BYTES} bytes")
    return content, status


def _missing(path: Path) -> str:
    """Describe a missing file. For a relative path, includes the absolute path that was tried."""
    return "there is no such file" + ("" if path.is_absolute() else f"; looked for {path.absolute()}")
