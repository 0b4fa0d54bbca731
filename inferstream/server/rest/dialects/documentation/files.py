"""The files of the page: read once, compressed once, and sent with what lets a browser keep them."""

import gzip
import hashlib
from functools import cache, lru_cache
from html import escape
from importlib.resources import files
from string import Template

from inferstream.ext.http import RawHeaders

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""What the page may do: nothing but load its own files and call its own server."""

KINDS = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}

DOCUMENT = "index.html"

KEPT: RawHeaders = [
    (b"cache-control", b"no-cache"),  # kept, and asked for again, so that a new server shows its own page
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

OF_DOCUMENTS: RawHeaders = [
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
]


class StaticFile:
    """A file with its headers. A strong validator names the bytes as they are sent, so each form has its own."""

    def __init__(self, body: bytes, headers: RawHeaders, vary: bytes = b"accept-encoding") -> None:
        digest = hashlib.sha256(body).hexdigest()[:20]
        packed = gzip.compress(body, 9, mtime=0)
        self._headers = [*headers, *KEPT, (b"vary", vary)]
        self._forms = {
            None: (f'"{digest}"'.encode(), body),
            b"gzip": (f'"{digest}-gzip"'.encode(), packed),
        }

    def response(self, headers: RawHeaders, encoding: bytes | None) -> tuple[int, RawHeaders, bytes]:
        """Status, headers and body for a request with these headers; 304 for a client that has the file.

        The body is compressed if the client accepts the `encoding` of the file.
        """
        if encoding not in self._forms:
            encoding = None
        etag, body = self._forms[encoding]
        sent = [*self._headers, (b"etag", etag)]
        known = dict(headers).get(b"if-none-match", b"").split(b",")
        if any(each.strip().removeprefix(b"W/") == etag for each in known):
            return 304, sent, b""
        if encoding is not None:
            sent.append((b"content-encoding", encoding))
        return 200, sent, body


@cache
def page_files() -> dict[str, StaticFile]:
    """What the page loads beside its document, by name."""
    static_files = {}
    for file in files("inferstream").joinpath("page").iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None and file.name != DOCUMENT:
            static_files[file.name] = StaticFile(file.read_bytes(), [(b"content-type", kind)])
    return static_files


@cache
def _document() -> Template:
    return Template(files("inferstream").joinpath("page", DOCUMENT).read_text("utf-8"))


@lru_cache(64)
def page_document(root: str, closed: bool = False) -> StaticFile:
    """The document of the page, for a path from which `root` leads to the root of the server.

    The page of a `closed` repository does not ask for its index, because a refusal would be a fault in the console.
    """
    text = _document().substitute(root=escape(root), closed=" closed" if closed else "")
    return StaticFile(
        text.encode(), [(b"content-type", KINDS[".html"]), *OF_DOCUMENTS], b"accept, accept-encoding"
    )
