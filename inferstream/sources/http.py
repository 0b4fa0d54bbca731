"""Files over HTTP: `https://host/model.tar.gz`, unpacked where they are archives."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

import httpx

from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials

from ..errors import InvalidSettings

ARCHIVE = re.compile(r"\.(tar(\.(gz|xz|bz2))?|tgz)$")

LARGEST_DOCUMENT = 4_000_000
"""Bytes of a manifest, a token, or the list of files at the hub."""

IDENTITY = {"Accept-Encoding": "identity"}

SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


def client(uri: str, url: str) -> httpx.Client:
    """A client for what `uri` names, whose reads end after a minute of silence.

    It raises InvalidSettings where a URL with TLS leads to one without.
    """

    def checked(request: httpx.Request) -> None:
        if request.url.scheme != "https":
            raise InvalidSettings(f"{hide_credentials(uri)} leads to a URL without TLS")

    hooks = {"request": [checked]} if url.startswith("https:") else {}
    return httpx.Client(follow_redirects=True, timeout=60.0, event_hooks=hooks)


def pieces(
    client: httpx.Client, url: str, offset: int, headers: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """The content behind a URL from `offset` on, whether or not the server serves ranges."""
    ranged = {"Range": f"bytes={offset}-"} if offset else {}
    # A coding has neither the size nor the ranges of the file. Some servers call that of an archive one.
    sent = {**IDENTITY, **(headers or {}), **ranged}
    with client.stream("GET", url, headers=sent) as got:
        if offset and got.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # there is no more
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


def document(
    client: httpx.Client, url: str, headers: Mapping[str, str] | None = None
) -> tuple[httpx.Response, bytes]:
    """A response, of whatever status, and its body. Raises FetchFailed for one that is too large, or compressed."""
    content = bytearray()
    with client.stream("GET", url, headers={**IDENTITY, **(headers or {})}) as got:
        if got.headers.get("content-encoding", "identity") != "identity":
            raise FetchFailed(f"{got.url.host} answers in a coding that it was not asked for")
        for piece in got.iter_bytes():
            content += piece
            if len(content) > LARGEST_DOCUMENT:
                raise FetchFailed(f"{got.url.host} answers with more than {LARGEST_DOCUMENT:,} bytes")
    return got, bytes(content)


class HttpSource(RemoteSource):
    """Files that a client of its own reads."""

    def __init__(self, uri: str, url: str) -> None:
        super().__init__(uri)
        self._client = client(uri, url)

    def close(self) -> None:
        self._client.close()


class HttpsFile(HttpSource):
    """One file, which `#sha256=` pins. An archive is the folder of its members."""

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
        # Not HEAD: links that are signed are so for one method.
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
        return pieces(self._client, self._url, offset, self._condition())

    def _condition(self) -> Mapping[str, str]:
        """The header that asks for this version alone; empty without an ETag that is strong."""
        return {"If-Match": self._etag} if self._etag and not self._etag.startswith("W/") else {}
