"""Stateless encoding of header blocks, with the static table and literals but no dynamic table.

Responses have few headers, and constant headers are encoded once. So a dynamic table would save too few bytes
to be worthwhile, and the server is independent of the peer's table size.
"""

from collections.abc import Iterable

from . import static
from .decoder import Header
from .integers import encode_integer

# Proxies must not index these (section 7.1.3), because an attacker could guess values in a shared table.
NEVER_INDEXED = frozenset((b"authorization", b"cookie", b"proxy-authorization", b"set-cookie"))

_LITERAL = 0x00
_NEVER = 0x10


def _indices() -> dict[bytes, int]:
    indices: dict[bytes, int] = {}
    for index, (name, _) in enumerate(static.TABLE, 1):
        indices.setdefault(name, index)
    return indices


_WHOLE = {header: encode_integer(index, 7, 0x80) for index, header in enumerate(static.TABLE, 1) if header[1]}
_NAMES = {
    name: encode_integer(index, 4, _NEVER if name in NEVER_INDEXED else _LITERAL)
    for name, index in _indices().items()
}
_LITERAL_NAME = bytes((_LITERAL,))
_LENGTHS = tuple(encode_integer(length, 7, 0) for length in range(256))


def encode(headers: Iterable[Header]) -> bytes:
    """Encode headers whose names are in lower case."""
    parts = []
    for header in headers:
        whole = _WHOLE.get(header)
        if whole is not None:
            parts.append(whole)
            continue
        name, value = header
        start = _NAMES.get(name)
        if start is None:
            parts += _LITERAL_NAME, _encode_length(name), name
        else:
            parts.append(start)
        parts += _encode_length(value), value
    return b"".join(parts)


def _encode_length(text: bytes) -> bytes:
    length = len(text)
    return _LENGTHS[length] if length < 256 else encode_integer(length, 7, 0)
