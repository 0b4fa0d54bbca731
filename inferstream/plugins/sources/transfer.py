"""The transfer of files from their source, which may lie about them."""

import hashlib
import threading
from pathlib import Path
from typing import BinaryIO, ClassVar

from inferstream.errors import InferstreamError
from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials
from inferstream.ext.telemetry import StatusLine

TRIES = 3
"""Attempts at a file that bring nothing new, before a fetch fails."""


class FetchEnded(FetchFailed):
    """The fetch was cancelled, or another file of it has failed."""


class Transfer:
    """The bytes of one fetch, for the console. `running` has those of this process by URI."""

    running: ClassVar[dict[str, "Transfer"]] = {}

    def __init__(self, uri: str, most: int) -> None:
        self.done = 0
        self.total = 0
        self.ended = threading.Event()
        self.refused = False
        """Whether what came so far must not stay."""
        self.made: list[Path] = []
        """Files of the cache that this fetch has made."""
        self._uri = uri
        self._most = most
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Bytes that may still come."""
        return self._most - self.done

    def add(self, count: int) -> None:
        """Count bytes. Raises FetchEnded once the fetch has ended, and FetchFailed for too many."""
        if self.ended.is_set():
            raise FetchEnded("the fetch was cancelled")
        with self._lock:
            self.done += count
        if self.left < 0:
            raise self.excess()

    def excess(self) -> FetchFailed:
        """The error of a source that has too much."""
        return FetchFailed(f"{self._uri} has more than {size(self._most)}, which max_fetch_bytes allows")


def transfer_file(source: RemoteSource, file: RemoteFile, output: BinaryIO, transfer: Transfer) -> None:
    tries = 0
    while True:
        if not file.resumes:
            transfer.add(-output.tell())
            output.seek(0)
            output.truncate()
        begun = output.tell()
        if file.size is not None and begun >= file.size:
            return
        try:
            for piece in source.read(file, begun):
                output.write(piece)
                transfer.add(len(piece))
                if file.size is not None and output.tell() > file.size:
                    name = f"{file.path} of {hide_credentials(source.uri)}"
                    raise FetchFailed(f"{name} has more bytes than the {file.size} that its source says")
            return
        except InferstreamError:
            raise
        except Exception:
            tries = tries + 1 if output.tell() == begun or not file.resumes else 1
            if tries == TRIES:
                raise


def fault_of(file: RemoteFile, content: BinaryIO) -> str | None:
    """How a file differs from what its source says of it; None if it does not."""
    length = content.tell()
    if file.size is not None and length != file.size:
        return f"has {length} bytes, and its source says {file.size}"
    kind, _, expected = (file.digest or "").partition(":")
    if not kind:
        return None
    content.seek(0)
    digest = hashlib.sha1(b"blob %d\0" % length) if kind == "git" else hashlib.new(kind)
    while piece := content.read(2**20):
        digest.update(piece)
    actual = digest.hexdigest()
    return None if actual == expected else f"has the digest {actual}, and its source says {expected}"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def fetching_line() -> str:
    """`fetching s3://models/chat: 34 % of 1.2 GB, hf://org/embed: 3 MB`; empty while nothing is transferred."""
    parts = [
        f"{uri}: {100 * each.done / each.total:.0f} % of {size(each.total)}"
        if each.total
        else f"{uri}: {size(each.done)}"
        for uri, each in Transfer.running.copy().items()
    ]
    return f"fetching {', '.join(parts)} …" if parts else ""


StatusLine.before_loads.append(fetching_line)
