"""Reads properties from the header of a GGUF file."""

import struct
from pathlib import Path
from typing import Any, BinaryIO

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MAX_STRING_BYTES = 1 << 24

ARCHITECTURE = "general.architecture"


def read_properties(path: Path) -> tuple[str, int | None]:
    """Return the architecture and the context length of a model. Raises OSError or ValueError."""
    with path.open("rb") as file:
        try:
            magic, _, _, count = _unpack(file, "4sIQQ")
            if magic != b"GGUF":
                raise ValueError("it is not a GGUF file")
            architecture, context = "", None
            for _ in range(count):
                name, (kind,) = _read_string(file), _unpack(file, "I")
                value = _read_value(file, kind)
                if name == ARCHITECTURE:
                    architecture = str(value)
                elif name == f"{architecture}.context_length":
                    context = int(value)
                if architecture and context is not None:
                    break
        except (struct.error, KeyError, UnicodeDecodeError) as error:
            raise ValueError("its header cannot be read") from error
    return architecture, context


def _read_value(file: BinaryIO, kind: int) -> Any:
    """Return a value, or None for an array."""
    if kind == STRING:
        return _read_string(file)
    if kind != ARRAY:
        return _unpack(file, SCALARS[kind])[0]
    each, count = _unpack(file, "IQ")
    if each in SCALARS:
        file.seek(count * struct.calcsize(SCALARS[each]), 1)
    else:
        for _ in range(count):
            _read_value(file, each)
    return None


def _read_string(file: BinaryIO) -> str:
    (size,) = _unpack(file, "Q")
    if size > MAX_STRING_BYTES:
        raise ValueError("its header cannot be read")
    return file.read(size).decode()


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))
