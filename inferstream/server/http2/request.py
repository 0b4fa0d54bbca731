"""Validated request heads (RFC 9113, sections 8.2 and 8.3)."""

import re
from collections.abc import Sequence
from typing import Any

from .errors import ErrorCode, StreamFault

Header = tuple[bytes, bytes]

_PSEUDO = frozenset((b":method", b":scheme", b":authority", b":path"))

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"(?![ \t])[^\x00\r\n]*(?<![ \t])")

_OF_CONNECTIONS = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)

_KNOWN = 1024
_MAX_HEADER_LENGTH = 256
_known: set[Header] = set()
"""A cache of valid fields, because most requests differ only in a few fields."""


class Request:
    """A valid request head. A connection reuses the object for requests with the same header block."""

    __slots__ = ("authority", "content_length", "derived", "fields", "method", "path", "scheme")

    def __init__(self, headers: Sequence[Header]) -> None:
        """Parse and validate the headers of a request. Raises StreamFault if they are malformed."""
        count = 0
        for name, _ in headers:
            if name[:1] != b":":
                break
            count += 1
        pseudo = dict(headers[:count])
        if len(pseudo) != count or not pseudo.keys() <= _PSEUDO:
            raise _protocol_error("a pseudo-header is unknown or repeated")
        self.fields = tuple(headers[count:])
        check_fields(self.fields)
        for value in pseudo.values():
            _check_value(value)
        self.method = pseudo.get(b":method", b"")
        self.scheme = pseudo.get(b":scheme", b"")
        self.path = pseudo.get(b":path", b"")
        self.authority = pseudo.get(b":authority", b"")
        if not (self.method and self.scheme and self.path):
            raise _protocol_error("a pseudo-header is missing")
        self.content_length = _parse_content_length(self.fields)
        self.derived: Any = None
        """A value that the application derives from the head, cached with it."""


def check_fields(fields: Sequence[Header]) -> None:
    """Raise StreamFault if a field of a head or of trailers is invalid."""
    for field in fields:
        if field not in _known:
            _check_field(field)


def _check_field(field: Header) -> None:
    name, value = field
    if _NAME.fullmatch(name) is None:
        raise _protocol_error("a field's name is illegal")
    if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
        raise _protocol_error("a field belongs to HTTP/1.1")
    _check_value(value)
    if len(name) + len(value) <= _MAX_HEADER_LENGTH:
        if len(_known) >= _KNOWN:
            _known.clear()
        _known.add(field)


def _check_value(value: bytes) -> None:
    if _VALUE.fullmatch(value) is None:
        raise _protocol_error("a field's value is illegal")


def _parse_content_length(fields: Sequence[Header]) -> int | None:
    if b"content-length" not in dict(fields):
        return None
    values = {value for name, value in fields if name == b"content-length"}
    value = values.pop()
    if values or not value.isdigit() or len(value) > 18:
        raise _protocol_error("the content-length is no length")
    return int(value)


def _protocol_error(reason: str) -> StreamFault:
    return StreamFault(ErrorCode.PROTOCOL_ERROR, reason)
