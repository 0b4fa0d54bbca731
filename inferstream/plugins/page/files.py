"""The static files of the page. Each is read and compressed once, and sent with caching headers."""

import gzip
import hashlib
import re
from functools import cache, lru_cache
from html import escape
from importlib.resources import files
from posixpath import normpath
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
"""The content security policy: the page can only load its own files and call its server."""

KINDS = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}

DOCUMENT = "index.html"

COMMENT = re.compile(rb"^[ \t]*(?://[^\n]*|/\*\*.*?\*/)\n", re.MULTILINE | re.DOTALL)
"""Whole lines of comments in a script, which are an eighth of what browsers would load."""

IMPORT = re.compile(rb'^(?:import|export) [^;]*? from "(\.\.?/[\w.]+)";$', re.MULTILINE)
"""The static imports of a script."""

KEPT: RawHeaders = [
    # Browsers must revalidate, so that a new server version shows its own page.
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

OF_DOCUMENTS: RawHeaders = [
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
]


class StaticFile:
    """A static file with its headers. Each encoding has its own strong ETag."""

    def __init__(self, body: bytes, headers: RawHeaders, vary: bytes = b"accept-encoding") -> None:
        digest = hashlib.sha256(body).hexdigest()[:20]
        packed = gzip.compress(body, 9, mtime=0)
        self._headers = [*headers, *KEPT, (b"vary", vary)]
        self._forms = {
            None: (f'"{digest}"'.encode(), body),
            b"gzip": (f'"{digest}-gzip"'.encode(), packed),
        }

    def response(self, headers: RawHeaders, encoding: bytes | None) -> tuple[int, RawHeaders, bytes]:
        """Return the status, headers and body for a request.

        The status is 304 if the client has the current version. The body is compressed if the `encoding` that
        the client accepts is available.
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
    """Return the files that the page loads by name, except the HTML document."""
    static_files = {}
    for file in files(__package__).joinpath("assets").iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None and file.name != DOCUMENT:
            content = file.read_bytes()
            if file.name.endswith(".js"):
                content = COMMENT.sub(b"", content)
            static_files[file.name] = StaticFile(content, [(b"content-type", kind)])
    return static_files


@cache
def _document() -> Template:
    return Template(files(__package__).joinpath("assets", DOCUMENT).read_text("utf-8"))


@cache
def _modules() -> tuple[str, ...]:
    """Return the paths of the scripts that the page always imports, from the server root.

    Without them, a browser finds the imports of each script only after it has loaded this script.
    """
    assets = files(__package__).joinpath("assets")
    scripts = ["./page.js"]
    for name in scripts:
        script = assets.joinpath(name).read_bytes() if name.startswith("./") else b""  # else the client's
        scripts += [each for each in map(bytes.decode, IMPORT.findall(script)) if each not in scripts]
    return tuple(normpath(f"page/{name}") for name in scripts[1:])


@lru_cache(64)
def page_document(root: str, closed: bool = False) -> StaticFile:
    """Return the HTML document. `root` is the relative or absolute path to the server root.

    If the repository is `closed`, the page does not request its index, which would cause an error in the
    console.
    """
    links = "".join(f'<link rel="modulepreload" href="{escape(root)}{path}">\n' for path in _modules())
    text = _document().substitute(root=escape(root), closed=" closed" if closed else "", links=links)
    return StaticFile(
        text.encode(), [(b"content-type", KINDS[".html"]), *OF_DOCUMENTS], b"accept, accept-encoding"
    )
