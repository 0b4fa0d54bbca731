"""The cache of fetched files.

It stores each content once, and a folder of hard links for each version of a URI.
"""

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import BinaryIO
from urllib.parse import urlsplit

from inferstream import Settings
from inferstream.errors import InferstreamError, InvalidSettings
from inferstream.ext.runtimes import Unpacker, UnsafeArchive, UntrustedOrigin
from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials
from inferstream.ext.telemetry import get_logger

from .settings import FetchSettings
from .transfer import FetchEnded, Transfer, find_fault, format_size, transfer_file

logger = get_logger("repository")

DATA_ONLY = "data"
"""A part of the hash of untrusted versions. Change it if the rule for their files changes."""

PARALLEL = 4
"""Maximum number of files of one version that are transferred concurrently."""

MAX_FILES = 50_000
"""Maximum number of files of one version, and of archive members if it is trusted."""

LOOK = 0.1
"""Seconds between checks of whether another fetch has finished transferring a file."""

TOLD = ("status_code", "code")
"""Attributes of library errors that hold a status.

Their messages are not logged, because they may contain credentials.
"""


class BlobCache:
    """Fetches the files of URIs into `sources_dir`.

    Servers can share the folder, and nothing in it is ever removed.
    """

    def __init__(self, settings: Settings) -> None:
        fetching = settings.section(FetchSettings)
        self._named = bool(fetching.sources_dir)
        self._folder = Path(fetching.sources_dir).absolute()
        self._offline = fetching.offline
        self._most = fetching.max_fetch_bytes

    async def fetch(self, uri: str, trusted: bool, stale: bool = False) -> Path:
        """Fetch the current version of a URI and return its folder.

        Without `trusted`, files that can run code are omitted.

        With `stale`, falls back to the last version in the cache if the source is unavailable. Raises
        FetchFailed or InvalidSettings.
        """
        if not self._named:
            raise InvalidSettings(
                "sources_dir: there is no home folder to keep fetched files in; name a folder"
            )
        transfer = Transfer(hide_credentials(uri), self._most)
        Transfer.running[hide_credentials(uri)] = transfer
        try:
            return await asyncio.to_thread(self._fetch_once, uri, trusted, stale, transfer)
        except asyncio.CancelledError:
            transfer.ended.set()
            raise
        finally:
            Transfer.running.pop(hide_credentials(uri), None)

    def _fetch_once(self, uri: str, trusted: bool, stale: bool, transfer: Transfer) -> Path:
        last = self._folder / "last" / _hash(uri, trusted or DATA_ONLY)
        if self._offline:
            if (folder := self._find_last(last)) is None:
                raise FetchFailed(f"{hide_credentials(uri)} is not in the cache, and the server is offline")
            return folder
        try:
            with RemoteSource.of(uri) as source, _remove_on_rejection(transfer):
                folder = self._fetch_version(source, trusted, transfer)
        except Exception as error:  # Libraries raise their own exception classes.
            failure = _failure(uri, error)
            if not stale or isinstance(error, FetchEnded) or (folder := self._find_last(last)) is None:
                raise failure from None
            logger.warning("%s; using the last version in the cache", failure.message)
            return folder
        _write(last, str(folder.relative_to(self._folder)))
        return folder

    def _find_last(self, last: Path) -> Path | None:
        with suppress(OSError):
            folder = self._folder / last.read_text()
            return folder if folder.is_dir() else None
        return None

    def _fetch_version(self, source: RemoteSource, trusted: bool, transfer: Transfer) -> Path:
        files = source.files()
        if not files:
            raise FetchFailed(f"{hide_credentials(source.uri)} has no files")
        folder = (
            self._folder / "versions" / _hash(source.uri, *files, trusted or DATA_ONLY) / uri_name(source.uri)
        )
        if folder.is_dir():
            return folder
        began = monotonic()
        _check(files, hide_credentials(source.uri))
        left_out = (
            set()
            if trusted
            else {each for each in files if not (each.unpack or UntrustedOrigin.is_data(each.path))}
        )
        files = [each for each in files if each not in left_out]
        transfer.total = sum(file.size or 0 for file in files)
        if transfer.total > self._most:
            raise transfer.excess()
        logger.info(
            "fetching %s, %s",
            hide_credentials(source.uri),
            format_size(transfer.total),
            extra={"brief": True},
        )
        with ThreadPoolExecutor(PARALLEL, "fetch") as pool:
            fetching = [pool.submit(self._fetch_blob, source, file, transfer) for file in files]
            failed = next((each.exception() for each in as_completed(fetching) if each.exception()), None)
            if failed is not None:
                transfer.refused = isinstance(failed, InferstreamError)
                transfer.ended.set()
                raise failed
        blobs = [each.result() for each in fetching]
        staging = Path(tempfile.mkdtemp(prefix="unpacking-", dir=_make_folder(self._folder / "versions")))
        try:
            unpacker = Unpacker(MAX_FILES) if trusted else Unpacker()
            _assemble(staging / folder.name, files, blobs, transfer, unpacker)
            if not trusted:
                _remove_code(
                    staging, folder.name, hide_credentials(source.uri), [each.path for each in left_out]
                )
            try:
                os.replace(staging, folder.parent)
            except OSError:
                if not folder.is_dir():  # Otherwise another server has created it in the meantime.
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        logger.info("fetched %s in %.1f s", hide_credentials(source.uri), monotonic() - began)
        return folder

    def _fetch_blob(self, source: RemoteSource, file: RemoteFile, transfer: Transfer) -> Path:
        """Transfer a file into the cache, or reuse its content. An interrupted transfer is resumed."""
        same = file.digest or (source.uri, file.path, file.identity)
        folder = _make_folder(self._folder / "blobs")
        # Settings must not be able to load a blob directly, without the mark of its version.
        UntrustedOrigin("the cache").mark(folder)
        blob = folder / _hash(same, file.size)
        if blob.exists():
            transfer.add(blob.stat().st_size)
            return blob
        partial = blob.with_suffix(".partial")
        with partial.open("a+b") as output:
            _lock(output, transfer)
            if blob.exists():  # Another fetch has just finished it.
                transfer.add(blob.stat().st_size)
                return blob
            try:
                transfer.add(output.tell())
                transfer_file(source, file, output, transfer)
                output.flush()
                if fault := find_fault(file, output):
                    raise FetchFailed(f"{file.path} of {hide_credentials(source.uri)} {fault}")
            except InferstreamError as error:
                if transfer.refused or not isinstance(error, FetchEnded):
                    output.truncate(0)
                raise
            os.replace(partial, blob)
            transfer.made.append(blob)
        return blob


@contextmanager
def _remove_on_rejection(transfer: Transfer) -> Iterator[None]:
    """Remove the files of a rejected fetch, unless another version uses them."""
    try:
        yield
    except (InferstreamError, UnsafeArchive) as error:
        if not isinstance(error, FetchEnded):
            for blob in transfer.made:
                with suppress(OSError):
                    if blob.stat().st_nlink == 1:
                        blob.unlink()
        raise


def _check(files: Sequence[RemoteFile], uri: str) -> None:
    """Raise FetchFailed for files that cannot be in the same folder, before they are fetched."""
    if len(files) > MAX_FILES:
        raise FetchFailed(f"{uri} has more than {MAX_FILES:,} files")
    plain = [file for file in files if not file.unpack]
    if len({file.path for file in plain}) < len(plain):
        raise FetchFailed(f"{uri} has two files of one path")
    for file in plain:
        if (fault := file.path_fault) is not None:
            raise FetchFailed(f"{uri}: a path of a file {fault}")


def _assemble(
    folder: Path, files: Sequence[RemoteFile], blobs: Sequence[Path], transfer: Transfer, unpacker: Unpacker
) -> None:
    """Fill a new folder.

    Archives are unpacked first, so that no member is written through a link to a blob.
    """
    folder.mkdir()
    for file, blob in sorted(zip(files, blobs, strict=True), key=lambda pair: not pair[0].unpack):
        if file.unpack:
            transfer.add(unpacker.unpack_tar(blob, folder, transfer.left))
            continue
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.resolve().is_relative_to(folder.resolve()):
            raise FetchFailed("a path of a file leads outside of its folder")
        target.unlink(missing_ok=True)
        try:
            os.link(blob, target)
        except OSError:  # The file system does not support hard links.
            shutil.copyfile(blob, target)
    if any(folder.rglob(UntrustedOrigin.MARK)):
        raise FetchFailed(f"a member of an archive is called {UntrustedOrigin.MARK}")


def _remove_code(staging: Path, name: str, uri: str, skipped: Sequence[str]) -> None:
    code = [path for path in sorted((staging / name).rglob("*")) if not UntrustedOrigin.is_data(path.name)]
    removed = [
        str(path.relative_to(staging / name)) for path in code if not path.is_dir() or path.is_symlink()
    ]
    for each in removed:
        (staging / name / each).unlink()
    removed = sorted([*removed, *skipped])
    UntrustedOrigin(uri, removed).mark(staging)
    if removed:
        logger.warning(
            "left out of %s, because trust_remote_code is not set for it: %s", uri, ", ".join(removed)
        )


def _failure(uri: str, error: Exception) -> InferstreamError:
    if isinstance(error, InferstreamError):
        return error
    if isinstance(error, ValueError) and type(error).__module__.startswith("inferstream."):
        return FetchFailed(f"{hide_credentials(uri)} cannot be unpacked: {error}")
    response = getattr(error, "response", error)
    said = next((value for name in TOLD if isinstance(value := getattr(response, name, None), int)), None)
    status = "" if said is None else f" {said}"
    return FetchFailed(f"{hide_credentials(uri)} cannot be fetched: {type(error).__name__}{status}")


def _lock(file: BinaryIO, transfer: Transfer) -> None:
    """Wait until no other fetch, in any process, is writing the file. Raises FetchEnded."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    while True:
        transfer.add(0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            transfer.ended.wait(LOOK)
    file.seek(0, os.SEEK_END)


def uri_name(uri: str) -> str:
    """Return the last segment of a URI, without archive suffixes, revision and tag."""
    last = urlsplit(hide_credentials(uri)).path.rstrip("/").rpartition("/")[2]
    name = last or urlsplit(uri).netloc.rpartition("@")[2]
    for suffix in (".gz", ".tgz", ".xz", ".bz2", ".tar"):
        name = name.removesuffix(suffix)
    return name.partition("@")[0].partition(":")[0] or "model"


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def _write(path: Path, text: str) -> None:
    new = _make_folder(path.parent) / f"{path.name}.{os.getpid()}.{threading.get_ident()}"
    new.write_text(text)
    os.replace(new, path)


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
