"""File transfers from sources, whose sizes and digests are not trusted."""

import hashlib
import threading
from pathlib import Path
from typing import BinaryIO, ClassVar

from inferstream.errors import InferstreamError
from inferstream.ext.sources import FetchFailed, RemoteFile, RemoteSource, hide_credentials
from inferstream.ext.telemetry import StatusLine

TRIES = 3
"""Consecutive attempts without new data before the transfer of a file fails."""


class FetchEnded(FetchFailed):
    """The fetch was cancelled, or another of its files failed."""


class Transfer:
    """The byte counts of one fetch. `running` has the fetches of this process by URI, for the console."""

    running: ClassVar[dict[str, "Transfer"]] = {}

    def __init__(self, uri: str, most: int) -> None:
        self.done = 0
        self.total = 0
        self.ended = threading.Event()
        self.refused = False
        """Whether the data received so far must be removed."""
        self.made: list[Path] = []
        """Cache files that this fetch has created."""
        self._uri = uri
        self._most = most
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """The number of bytes that may still be received."""
        return self._most - self.done

    def add(self, count: int) -> None:
        """Count bytes. Raises FetchEnded if the fetch was stopped, and FetchFailed above the limit."""
        if self.ended.is_set():
            raise FetchEnded("the fetch was cancelled")
        with self._lock:
            self.done += count
        if self.left < 0:
            raise self.excess()

    def excess(self) -> FetchFailed:
        """Create the error for a source that is too large."""
        return FetchFailed(
            f"{self._uri} has more than {format_size(self._most)}, which max_fetch_bytes allows"
        )


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


def find_fault(file: RemoteFile, content: BinaryIO) -> str | None:
    """Describe how a file differs from the size and digest that its source declares, or return None."""
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


def format_size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def fetching_line() -> str:
    """Return a progress line such as `fetching s3://models/chat: 34 % of 1.2 GB, hf://org/embed: 3 MB`.

    Empty if idle.
    """
    parts = [
        f"{uri}: {100 * each.done / each.total:.0f} % of {format_size(each.total)}"
        if each.total
        else f"{uri}: {format_size(each.done)}"
        for uri, each in Transfer.running.copy().items()
    ]
    return f"fetching {', '.join(parts)} …" if parts else ""


StatusLine.before_loads.append(fetching_line)
