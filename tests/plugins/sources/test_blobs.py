"""The cache of fetched files, with a source in memory."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.ext.runtimes import UntrustedOrigin
from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource
from inferstream.ext.sources import hide_credentials as shown
from inferstream.plugins.sources import blobs
from inferstream.plugins.sources.blobs import BlobCache, Transfer, uri_name
from inferstream.plugins.sources.fetched_artefacts import describe_left_out


class Memory(RemoteSource):
    """Files in memory. A read ends with an error after `most` bytes, `breaks` times."""

    content: dict[str, bytes]
    digest: str | None = None
    most = 2**30
    breaks = 0
    reads: list[tuple[str, int]]

    def files(self) -> Sequence[RemoteFile]:
        return [
            RemoteFile(path, len(content), hashlib.sha256(content).hexdigest(), self.digest)
            for path, content in self.content.items()
        ]

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        self.reads.append((file.path, offset))
        content = self.content[file.path][offset:]
        yield content[: self.most]
        if len(content) > self.most and type(self).breaks:
            type(self).breaks -= 1
            raise ConnectionError("key=s3cr3t")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> type[Memory]:
    class Own(Memory):
        content = {"a/model.json": b"0123456789", "model.py": b"code"}
        reads: list[tuple[str, int]] = []

    monkeypatch.setattr(RemoteSource, "of", Own)
    return Own


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    return BlobCache(Settings(sources_dir=str(tmp_path)))


async def test_code_is_skipped_without_trust(source: type[Memory], cache: BlobCache) -> None:
    folder = await cache.fetch("memory://m/tree", trusted=False)
    assert sorted(path.name for path in folder.rglob("*")) == ["a", "model.json"]
    assert "model.py" in describe_left_out(folder)
    assert [path for path, _ in source.reads] == ["a/model.json"]
    trusted = await cache.fetch("memory://m/tree", trusted=True)
    assert (trusted / "model.py").read_bytes() == b"code"
    assert len(source.reads) == 2  # the second version has the same contents
    assert UntrustedOrigin.of(trusted / "model.py") is None
    assert UntrustedOrigin.of(folder.parents[2] / "blobs" / "0") is not None


async def test_transfer_resumes_after_interruption(source: type[Memory], cache: BlobCache) -> None:
    source.content = {"model.json": b"0123456789"}
    source.most, source.breaks = 4, 2
    folder = await cache.fetch("memory://m/tree", trusted=False)
    assert (folder / "model.json").read_bytes() == b"0123456789"
    assert [offset for _, offset in source.reads] == [0, 4, 8]


async def test_stalled_transfer_fails_without_error_text(source: type[Memory], cache: BlobCache) -> None:
    source.most, source.breaks = 0, 100
    with pytest.raises(FetchFailed, match=r"^memory://m/tree cannot be fetched: ConnectionError$"):
        await cache.fetch("memory://user:s3cr3t@m/tree", trusted=False)


async def test_transfer_of_unknown_version_restarts(
    source: type[Memory], cache: BlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "files", lambda _: [RemoteFile("model.json", 10, "", resumes=False)])
    source.content = {"model.json": b"0123456789"}
    source.most, source.breaks = 4, 1

    def read(self: Memory, file: RemoteFile, offset: int) -> Iterator[bytes]:
        yield from Memory.read(self, file, offset)
        yield self.content[file.path][self.most :]

    monkeypatch.setattr(source, "read", read)
    folder = await cache.fetch("memory://m/tree", trusted=False)
    assert (folder / "model.json").read_bytes() == b"0123456789"
    assert [offset for _, offset in source.reads] == [0, 0]


async def test_failed_file_ends_other_transfers(
    source: type[Memory], cache: BlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.content = {"endless.txt": b"", "failing.txt": b"1"}
    begun = threading.Event()

    def read(self: Memory, file: RemoteFile, offset: int) -> Iterator[bytes]:
        if file.path == "failing.txt":
            assert begun.wait(60)
            raise FetchFailed("this file failed first")
        while True:
            yield b"0"
            begun.set()

    monkeypatch.setattr(source, "read", read)
    sizes = [RemoteFile("endless.txt", None, "1"), RemoteFile("failing.txt", 1, "2")]
    monkeypatch.setattr(source, "files", lambda _: sizes)
    with pytest.raises(FetchFailed, match=r"^this file failed first$"):
        await asyncio.wait_for(cache.fetch("memory://m/tree", trusted=False), 60)


async def test_cancelled_fetch_does_not_wait_for_other_transfer(
    source: type[Memory], cache: BlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.content = {"model.json": b"1"}
    begun, end, waits = threading.Event(), threading.Event(), threading.Event()
    ended: list[str] = []
    lock = blobs._lock

    def read(self: Memory, file: RemoteFile, offset: int) -> Iterator[bytes]:
        begun.set()
        assert end.wait(60)
        yield b"1"

    def locked(file: BinaryIO, transfer: Transfer) -> None:
        if begun.is_set():
            waits.set()
        try:
            lock(file, transfer)
        except FetchFailed:
            ended.append("waiting")
            end.set()
            raise

    monkeypatch.setattr(source, "read", read)
    monkeypatch.setattr(blobs, "_lock", locked)
    first = asyncio.create_task(cache.fetch("memory://m/tree", trusted=False))
    assert await asyncio.to_thread(begun.wait, 60)
    second = asyncio.create_task(cache.fetch("memory://m/tree", trusted=False))
    assert await asyncio.to_thread(waits.wait, 60)
    second.cancel()
    await first  # whose read ends when the second fetch has left its lock
    assert ended == ["waiting"]


async def test_wrong_digest_is_refused_and_fetched_again(source: type[Memory], cache: BlobCache) -> None:
    source.content = {"model.json": b"01234"}
    source.digest = f"sha256:{hashlib.sha256(b'56789').hexdigest()}"
    with pytest.raises(FetchFailed, match=r"model.json of memory://m/tree has the digest [0-9a-f]{64}"):
        await cache.fetch("memory://m/tree", trusted=False)
    source.content = {"model.json": b"56789"}
    folder = await cache.fetch("memory://m/tree", trusted=False)
    assert (folder / "model.json").read_bytes() == b"56789"


async def test_versions_of_two_uris_are_separate(
    source: type[Memory], cache: BlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(self: Memory) -> Sequence[RemoteFile]:
        return [RemoteFile("model.json", 1, '"etag"')]

    def read(self: Memory, file: RemoteFile, offset: int) -> Iterator[bytes]:
        yield self.uri[-1:].encode()

    monkeypatch.setattr(source, "files", files)
    monkeypatch.setattr(source, "read", read)
    for uri in ("memory://m/1", "memory://m/2", "memory://m/1/tree?a=3", "memory://m/1/tree?a=4"):
        folder = await cache.fetch(uri, trusted=False)
        assert (folder.name, (folder / "model.json").read_bytes()) == (uri_name(uri), uri[-1:].encode())


async def test_version_that_cannot_be_installed_is_a_failure(
    source: type[Memory], cache: BlobCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def refused(old: Path, new: Path) -> None:
        if Path(old).is_dir():
            raise PermissionError
        replace(old, new)

    monkeypatch.setattr(blobs.os, "replace", refused)
    with pytest.raises(FetchFailed, match="PermissionError"):
        await cache.fetch("memory://m/tree", trusted=False)


@pytest.mark.parametrize("path", ["../out", "/out", "a/../../out", "x" * 2000])
async def test_path_traversal_is_refused(source: type[Memory], cache: BlobCache, path: str) -> None:
    source.content = {path: b"1"}
    with pytest.raises(FetchFailed, match="leads outside"):
        await cache.fetch("memory://m/tree", trusted=True)


async def test_last_version_serves_if_source_is_unreachable(
    source: type[Memory], cache: BlobCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = BlobCache(Settings(sources_dir=str(tmp_path), offline=True))
    with pytest.raises(FetchFailed, match="not in the cache"):
        await offline.fetch("memory://m/tree", trusted=False)
    folder = await cache.fetch("memory://m/tree", trusted=False)

    def unreachable(self: Memory) -> Sequence[RemoteFile]:
        raise ConnectionError

    monkeypatch.setattr(source, "files", unreachable)
    assert await offline.fetch("memory://m/tree", trusted=False) == folder
    assert await cache.fetch("memory://m/tree", trusted=False, stale=True) == folder
    with pytest.raises(FetchFailed):
        await cache.fetch("memory://m/tree", trusted=False)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("hf://org/model@main", "model"),
        ("s3://bucket/folder/model/", "model"),
        ("s3://bucket", "bucket"),
        ("https://u:p@host/a/model.tar.gz?token=1", "model"),
        ("oci://host/a/model:v1", "model"),
        ("https://host/.tgz", "model"),
    ],
)
def test_name_is_last_path_segment(uri: str, name: str) -> None:
    assert uri_name(uri) == name


def test_uris_in_messages_and_names() -> None:
    assert shown("https://u:p@h/x.tar.gz?sig=1#sha256=2") == "https://h/x.tar.gz"
    names = {
        "https://h/x.tar.gz?s": "x",
        "hf://o/m@v": "m",
        "oci://h:5/a/b:1": "b",
        "s3://b/p/": "p",
        "s3://b": "b",
    }
    assert {uri: uri_name(uri) for uri in names} == names


async def test_missing_home_folder_fails_only_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    settings = Settings()
    assert settings.sources_dir == ""
    with pytest.raises(InvalidSettings, match="sources_dir: there is no home folder"):
        await BlobCache(settings).fetch("s3://models/m", trusted=False)
