"""Encoding header blocks without state: static table and literals, never the peer's dynamic table.

A response has few headers, and its constant ones are encoded once by their sender. So the bytes that a dynamic table
would save are not worth its work, and a peer may give the table any size.
"""

from collections.abc import Iterable

from . import static
from .decoder import Header
from .integers import integer

# A proxy must pass these on in the same form (7.1.3), because a table that others share would let them guess the value.
NEVER_INDEXED = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"set-cookie"))

_LITERAL = 0x00
_NEVER = 0x10


def _indices() -> dict[bytes, int]:
    indices: dict[bytes, int] = {}
    for index, (name, _) in enumerate(static.TABLE, 1):
        indices.setdefault(name, index)
    return indices


_WHOLE = {header: integer(index, 7, 0x80) for index, header in enumerate(static.TABLE, 1) if header[1]}
_NAMES = {
    name: integer(index, 4, _NEVER if name in NEVER_INDEXED else _LITERAL)
    for name, index in _indices().items()
}
_LITERAL_NAME = bytes((_LITERAL,))
_LENGTHS = tuple(integer(length, 7, 0) for length in range(256))


def encode(headers: Iterable[Header]) -> bytes:
    """A block for headers whose names are in lower case."""
    parts = []
    for header in headers:
        whole = _WHOLE.get(header)
        if whole is not None:
            parts.append(whole)
            continue
        name, value = header
        start = _NAMES.get(name)
        if start is None:
            parts += _LITERAL_NAME, _length(name), name
        else:
            parts.append(start)
        parts += _length(value), value
    return b"".join(parts)


def _length(text: bytes) -> bytes:
    length = len(text)
    return _LENGTHS[length] if length < 256 else integer(length, 7, 0)
