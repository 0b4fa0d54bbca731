"""Parsing and validation of request heads."""

import re
from typing import Any

import httptools

RawHeaders = list[tuple[bytes, bytes]]

END = b"\r\n\r\n"
"""The end of a head."""

PREFACE = b"PRI "
"""The first bytes from a client with prior knowledge of HTTP/2 (RFC 9113, section 3.4)."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 * 1024
"""The maximum size of a head, including the request line, and of the trailers after a body, in bytes."""

TOO_LARGE = "The request's headers are too large."
INVALID = "Invalid HTTP request received."

VERSIONS = (b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0")
"""Valid ends of a request line. A request with HTTP/2.0 is served like HTTP/1.0, so its connection closes."""

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and port (RFC 3986, section 3.2.2)."""


class RequestRefused(Exception):
    """A request that is rejected with an error response, after which its connection closes."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class RequestHead:
    """The request line and the headers of a request."""

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
        """The length of the body in bytes, unless it is `chunked`."""
        self.chunked = self.expects = False
        self.upgrade: bytes | None = None
        self.route: Any = None
        """The service's direct route, or None if the ASGI application handles the request."""
        self.fixed = False
        """Whether the route is the same for every request with this head."""
        self.meaning: Any = None
        """The service's interpretation of the headers, for a request that it serves directly."""
        self._read()

    def _read(self) -> None:
        """Interpret the headers. Raises RequestRefused."""
        hosts = 0
        tokens: list[bytes] = []
        upgrade = None
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
                if hosts > 1 or _HOST.fullmatch(value.strip(b" \t")) is None:
                    raise RequestRefused(400, "The Host header is not one host.")
            elif name == b"content-length":
                self.length = int(value)  # httptools accepts digits only, and rejects a second header
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
            raise RequestRefused(400, "The request has no Host header.")  # RFC 9112, section 3.2
        if b"close" in tokens:
            self.keep_alive = False
        if b"upgrade" in tokens:
            self.upgrade = upgrade


class _Parsed:
    """Collects the results of an httptools parser."""

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
    """Parse the head in `data`, which includes the final `END`. Raises RequestRefused.

    Each head has its own parser, and bodies are parsed separately. So nothing after a request is parsed
    early, and a trailer cannot become a header.
    """
    parsed = _Parsed()
    parser = httptools.HttpRequestParser(parsed)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # an unknown upgrade is ignored
    except httptools.HttpParserError:
        raise RequestRefused(400, INVALID) from None
    if not parsed.complete or not data[: data.find(b"\r\n")].endswith(VERSIONS):
        raise RequestRefused(400, INVALID)
    if len(parsed.headers) > MAX_HEADERS:
        raise RequestRefused(431, TOO_LARGE)
    return RequestHead(parser.get_method(), parser.get_http_version(), parsed.target, parsed.headers)


def check_beginning(data: bytes) -> None:
    """Raise RequestRefused if an incomplete head is too large or is not the start of a valid head."""
    if len(data) > MAX_HEADER_BYTES:
        raise RequestRefused(431, TOO_LARGE)
    if _BEGINNING.match(data) is None or data.count(b"\n") != data.count(b"\r\n"):
        raise RequestRefused(400, INVALID)


_BEGINNING = re.compile(rb"[A-Z-]{1,20}(?: |$)")
