"""The head of a request, checked (RFC 9113 sections 8.2 and 8.3)."""

import re
from collections.abc import Sequence
from typing import Any

from .errors import ErrorCode, StreamFault

Header = tuple[bytes, bytes]

_PSEUDO = (b":method", b":scheme", b":authority", b":path")

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")

_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))


class Request:
    """A valid head. A connection gives the same object for each request whose header block is the same."""

    __slots__ = ("authority", "content_length", "derived", "fields", "method", "path", "scheme")

    def __init__(self, headers: Sequence[Header]) -> None:
        """Raises StreamFault for a malformed head."""
        pseudo: dict[bytes, bytes] = {}
        fields: list[Header] = []
        for name, value in headers:
            if name[:1] == b":":
                if fields:
                    raise _malformed("a pseudo-header follows a field")
                if name not in _PSEUDO or name in pseudo:
                    raise _malformed("a pseudo-header is unknown or repeated")
                pseudo[name] = value
            else:
                fields.append((name, value))
        _check(headers, len(pseudo))
        self.method = pseudo.get(b":method", b"")
        self.scheme = pseudo.get(b":scheme", b"")
        self.path = pseudo.get(b":path", b"")
        self.authority = pseudo.get(b":authority", b"")
        self.fields = tuple(fields)
        self.content_length = _content_length(fields)
        self.derived: Any = None
        """What the application makes of the head, to make it once."""
        if not (self.method and self.scheme and self.path):
            raise _malformed("a pseudo-header is missing")


def check_trailers(headers: Sequence[Header]) -> None:
    """Raises StreamFault for malformed trailers."""
    _check(headers, 0)


def _check(headers: Sequence[Header], pseudo: int) -> None:
    for index, (name, value) in enumerate(headers):
        if index >= pseudo and _NAME.fullmatch(name) is None:
            raise _malformed("a field's name is illegal")
        if _BAD_VALUE.search(value):
            raise _malformed("a field's value is illegal")
        if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
            raise _malformed("a field belongs to HTTP/1.1")


def _content_length(fields: Sequence[Header]) -> int | None:
    found = {value for name, value in fields if name == b"content-length"}
    if not found:
        return None
    value = found.pop()
    if found or not value.isdigit() or len(value) > 18:
        raise _malformed("the content-length is no length")
    return int(value)


def _malformed(reason: str) -> StreamFault:
    return StreamFault(ErrorCode.PROTOCOL_ERROR, reason)
