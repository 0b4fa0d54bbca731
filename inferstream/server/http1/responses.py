"""The beginning of responses: status lines and the headers that all of them have."""

import re
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

from .heads import RawHeaders

CLOSE = (b"connection", b"close")

_NO_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]|^$")
_NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


STATUS_LINES = {status: b"HTTP/1.1 %d %b\r\n" % (status, _phrase(status)) for status in range(100, 600)}


class Openings(dict[int, bytes]):
    """The status line and the headers of every response of a port by status, joined again when the date changes."""

    def __init__(self, headers: RawHeaders, dated: bool) -> None:
        self._headers = headers
        self._dated = dated
        self.pairs: RawHeaders = []
        """Headers of every response."""
        self.common = b""
        """Their lines."""
        self.renew()

    def renew(self) -> None:
        """Take the date of this second."""
        dated = [(b"date", formatdate(usegmt=True).encode())] if self._dated else []
        pairs = [*dated, *self._headers]
        if pairs != self.pairs:
            self.common = b"".join(b"%b: %b\r\n" % pair for pair in pairs)
            self.pairs = pairs
            self.clear()

    def __missing__(self, status: int) -> bytes:
        joined = self[status] = STATUS_LINES[status] + self.common
        return joined


def refusal(status: int, message: str) -> bytes:
    """A whole response that ends its connection."""
    body = b'{"error":"%s"}' % message.encode()
    return b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
        STATUS_LINES[status],
        len(body),
        body,
    )


def checked(headers: Sequence[tuple[bytes, bytes]]) -> RawHeaders:
    """Headers of an application, with lower-case names. Raises ValueError for one that would break the response."""
    for name, value in headers:
        if _NO_NAME.search(name) or _NO_VALUE.search(value):
            raise ValueError(f"the response header {name!r} has a wrong name or value")
    return [(name.lower(), value) for name, value in headers]
