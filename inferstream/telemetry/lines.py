"""JSON Lines files that a background thread appends to. A full disk does not stop the server."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from .background import BackgroundWriter


class Timed(Protocol):
    @property
    def time(self) -> float:
        """Seconds since the epoch."""


Line = TypeVar("Line", bound=Timed)


class LineFile(BackgroundWriter[Line]):
    """Appends records to a file, which several processes can share.

    If the file is moved or removed, a new one is created. Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._torn = False
        self._descriptor = self.open_private(path)
        self._encode = msgspec.json.Encoder().encode
        super().__init__(path)

    def close(self, seconds: float | None = None) -> None:
        super().close(seconds)
        os.close(self._descriptor)

    def text(self, records: Sequence[Line]) -> bytes:
        """Encode records as lines. Raises OSError if other data that belongs to them cannot be written."""
        return b"".join([self._encode(record) + b"\n" for record in records])

    def written(self) -> None:
        """Called after a successful write."""

    def write(self, batch: list[Line]) -> None:
        refused = self._refused
        try:
            self.reopen_if_rotated()
            text = self.text(batch)
            if dropped := self.lost(refused):
                text = self._encode({"time": batch[0].time, "dropped": dropped}) + b"\n" + text
            if self._torn:
                text = b"\n" + text
            written = os.write(self._descriptor, text)
        except OSError as error:
            self.lose(len(batch), error.strerror or str(error))
            return
        except Exception as error:  # from one record; later records are still written
            self.lose(len(batch), f"{type(error).__name__}: {error}")
            return
        if written < len(text):
            self._torn = not text[:written].endswith(b"\n")
            self.lose(min(text[written:].count(b"\n"), len(batch)), "the disk is full")
            return
        self._torn = False
        self.settle(refused)
        self.written()

    def reopen_if_rotated(self) -> None:
        """Open the path again if the file there was replaced or removed."""
        self._descriptor = self.reopen(self._target, self._descriptor)

    @staticmethod
    def open_private(path: str) -> int:
        """Open a file for appending. A new file is only readable by its owner. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @classmethod
    def reopen(cls, path: str, descriptor: int) -> int:
        """Return the descriptor of a file, or a new one if the file at its path was replaced or removed.

        Raises OSError.
        """
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        new = cls.open_private(path)
        os.close(descriptor)
        return new
