"""Properties of a model that the library does not report."""

import json
import re
from pathlib import Path
from typing import NamedTuple

GGUF = b"GGUF"
HEADER_BYTES = 65536
"""Bytes at the start of a GGUF file that hold its properties. The tokens of the tokenizer follow."""

ARCHITECTURE = re.compile(rb"general\.architecture\x08\0{3}(?s:.)\0{7}([\w-]+?)[^\w-]")
CONTEXT_LENGTH = re.compile(rb"\.context_length[\x04\x05\x0a\x0b]\0{3}((?s:.){4})")
"""The names of two properties in a GGUF file, with their type and value."""


class Properties(NamedTuple):
    """`context` is None if it is not known, and `vocabulary` is 0."""

    architecture: str
    context: int | None
    vocabulary: int


def read_properties(path: Path) -> Properties:
    """Read the properties of a GGUF file, or of a folder from its `config.json`. Raises OSError or ValueError."""
    if path.is_dir():
        source = path / "config.json"
        config = json.loads(source.read_bytes()) if source.is_file() else {}
        if not isinstance(config, dict):
            raise ValueError("config.json is not an object")
        context, vocabulary = config.get("max_position_embeddings"), config.get("vocab_size") or 0
        return Properties(str(config.get("model_type", "")), context, vocabulary)
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if not header.startswith(GGUF):
        raise ValueError("it is not a GGUF file")
    name, length = ARCHITECTURE.search(header), CONTEXT_LENGTH.search(header)
    return Properties(
        name[1].decode() if name else "", int.from_bytes(length[1], "little") if length else None, 0
    )
