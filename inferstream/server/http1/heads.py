"""The head of a request: parsed, checked, and kept for as long as a client repeats it."""

import re
from typing import Any

import httptools

RawHeaders = list[tuple[bytes, bytes]]

END = b"\r\n\r\n"
"""The end of a head."""

PREFACE = b"PRI "
"""How a client begins that knows that the port speaks HTTP/2 (RFC 9113 section 3.4)."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
"""Bytes of a head, request line included, and of the trailers behind a body."""

TOO_LARGE = "The request's headers are too large."
INVALID = "Invalid HTTP request received."

VERSIONS = (b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0")
"""How a request line ends. What claims HTTP/2 here is served as 1.0 is, and its connection closes."""

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and a port (RFC 3986 section 3.2.2)."""


class RequestRefused(Exception):
    """A request that is answered here, after which its connection closes."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class RequestHead:
    """A request without its body."""

    __slots__ = (
        "chunked",
        "expects",
        "fixed",
        "headers",
        "keep_alive",
        "length",
        "meaning",
        "method",
        "route",
        "target",
        "upgrade",
        "version",
    )

    def __init__(self, method: bytes, version: str, target: bytes, headers: RawHeaders) -> None:
        self.method = method
        self.version = version
        self.target = target
        self.headers = headers
        self.keep_alive = version == "1.1"
        self.length = 0
        """Bytes of the body, if it is not `chunked`."""
        self.chunked = self.expects = False
        self.upgrade: bytes | None = None
        self.route: Any = None
        """What the service serves directly; None for a request that takes ASGI."""
        self.fixed = False
        """Whether it is the same for each request with this head."""
        self.meaning: Any = None
        """What the service has read in the headers of a request that it serves directly."""
        self._read()

    def _read(self) -> None:
        """Raises RequestRefused."""
        hosts = 0
        tokens: list[bytes] = []
        upgrade = None
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
                if hosts > 1 or _HOST.fullmatch(value.strip(b" \t")) is None:
                    raise RequestRefused(400, "The Host header is not one host.")
            elif name == b"content-length":
                self.length = int(value)  # httptools takes digits only, and no second one
            elif name == b"transfer-encoding":
                if value.strip(b" \t").lower() != b"chunked":
                    raise RequestRefused(501, "The only Transfer-Encoding known here is chunked.")
                if self.version != "1.1":
                    raise RequestRefused(400, "Transfer-Encoding needs HTTP/1.1.")
                self.chunked = True
            elif name == b"connection":
                tokens += [token.strip(b" \t").lower() for token in value.split(b",")]
            elif name == b"expect":
                self.expects = value.lower() == b"100-continue" and self.version == "1.1"
            elif name == b"upgrade":
                upgrade = value.lower()
        if not hosts and self.version == "1.1":
            raise RequestRefused(400, "The request has no Host header.")  # RFC 9112 section 3.2
        if b"close" in tokens:
            self.keep_alive = False
        if b"upgrade" in tokens:
            self.upgrade = upgrade


class _Parsed:
    """What httptools calls."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: RawHeaders = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.complete = True


def parse_head(data: bytes) -> RequestHead:
    """The head in `data`, which ends with `END`. Raises RequestRefused.

    A parser reads one head: the bodies are counted here, so that nothing behind a request is read before its
    turn, and no trailer can pass for a header.
    """
    parsed = _Parsed()
    parser = httptools.HttpRequestParser(parsed)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # that may not be known here, and then HTTP goes on
    except httptools.HttpParserError:
        raise RequestRefused(400, INVALID) from None
    if not parsed.complete or not data[: data.find(b"\r\n")].endswith(VERSIONS):
        raise RequestRefused(400, INVALID)
    if len(parsed.headers) > MAX_HEADERS:
        raise RequestRefused(431, TOO_LARGE)
    return RequestHead(parser.get_method(), parser.get_http_version(), parsed.target, parsed.headers)


def check_beginning(data: bytes) -> None:
    """Raise RequestRefused for an incomplete head that is too large, or that can become none."""
    if len(data) > MAX_HEADER_BYTES:
        raise RequestRefused(431, TOO_LARGE)
    if _BEGINNING.match(data) is None or data.count(b"\n") != data.count(b"\r\n"):
        raise RequestRefused(400, INVALID)


_BEGINNING = re.compile(rb"[A-Z-]{1,20}(?: |$)")
