"""Files over HTTP, such as `https://host/model.tar.gz`. Archives are unpacked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

import httpx

from inferstream.errors import InvalidSettings
from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials

ARCHIVE = re.compile(r"\.(tar(\.(gz|xz|bz2))?|tgz)$")

MAX_DOCUMENT_SIZE = 4_000_000
"""Maximum size in bytes of a manifest, a token, or the hub's list of files."""

IDENTITY = {"Accept-Encoding": "identity"}

SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


def create_client(uri: str, url: str) -> httpx.Client:
    """Create a client for a source. Reads time out after 60 seconds without data.

    Raises InvalidSettings if an https URL redirects to a URL without TLS.
    """

    def check(request: httpx.Request) -> None:
        if request.url.scheme != "https":
            raise InvalidSettings(f"{hide_credentials(uri)} leads to a URL without TLS")

    hooks = {"request": [check]} if url.startswith("https:") else {}
    return httpx.Client(follow_redirects=True, timeout=60.0, event_hooks=hooks)


def read_pieces(
    client: httpx.Client, url: str, offset: int, headers: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """Yield the content of a URL from `offset` on, even if the server does not support ranges."""
    ranged = {"Range": f"bytes={offset}-"} if offset else {}
    # Encoded content has a different size and different ranges. Some servers report an archive as encoded
    # content.
    sent = {**IDENTITY, **(headers or {}), **ranged}
    with client.stream("GET", url, headers=sent) as got:
        if offset and got.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # The file is complete.
        got.raise_for_status()
        etag, part = sent.get("If-Match"), got.headers.get("content-range", f"bytes {offset}-")
        if got.headers.get("etag", etag) != etag and etag is not None:
            raise FetchFailed("the file has changed while it was fetched")
        if not part.startswith(f"bytes {offset}-"):
            raise FetchFailed("its source sends another part of a file than it was asked for")
        skipped = 0 if got.status_code == httpx.codes.PARTIAL_CONTENT else offset
        for piece in got.iter_raw():
            if skipped < len(piece):
                yield piece[skipped:]
            skipped = max(0, skipped - len(piece))


def fetch_document(
    client: httpx.Client, url: str, headers: Mapping[str, str] | None = None
) -> tuple[httpx.Response, bytes]:
    """Fetch a document. Returns the response, with any status, and the body.

    Raises FetchFailed if the body is too large or compressed.
    """
    content = bytearray()
    with client.stream("GET", url, headers={**IDENTITY, **(headers or {})}) as got:
        if got.headers.get("content-encoding", "identity") != "identity":
            raise FetchFailed(f"{got.url.host} answers in a coding that it was not asked for")
        for piece in got.iter_bytes():
            content += piece
            if len(content) > MAX_DOCUMENT_SIZE:
                raise FetchFailed(f"{got.url.host} answers with more than {MAX_DOCUMENT_SIZE:,} bytes")
    return got, bytes(content)


class HttpSource(RemoteSource):
    """Base class of sources that read files with an HTTP client."""

    def __init__(self, uri: str, url: str) -> None:
        super().__init__(uri)
        self._client = create_client(uri, url)

    def close(self) -> None:
        self._client.close()


class HttpsFile(HttpSource):
    """A single file, which `#sha256=` can pin. An archive becomes the folder of its members."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, uri)
        self._url, _, pinned = uri.partition("#")
        self._etag: str | None = None
        match = SHA256.fullmatch(pinned)
        if pinned and match is None:
            raise InvalidSettings(
                f"{hide_credentials(uri)}: after the # stands sha256= and 64 hexadecimal digits, or nothing"
            )
        self._sha256 = None if match is None else f"sha256:{match[1]}"

    def files(self) -> Sequence[RemoteFile]:
        # GET instead of HEAD, because signed links are valid for only one method.
        with self._client.stream("GET", self._url, headers=IDENTITY) as got:
            got.raise_for_status()
            headers = got.headers
        size = headers.get("content-length")
        self._etag = headers.get("etag")
        name = unquote(urlsplit(self._url).path).rpartition("/")[2] or "model"
        identity = self._etag or headers.get("last-modified") or ""
        whole = int(size) if size is not None else None
        pinned = self._sha256 is not None or bool(self._condition())
        return [RemoteFile(name, whole, identity, self._sha256, ARCHIVE.search(name) is not None, pinned)]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        return read_pieces(self._client, self._url, offset, self._condition())

    def _condition(self) -> Mapping[str, str]:
        """Return the header that restricts the request to this version. Empty without a strong ETag."""
        return {"If-Match": self._etag} if self._etag and not self._etag.startswith("W/") else {}
