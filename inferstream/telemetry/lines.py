"""Files of lines of JSON, to which a thread appends. A full disk stops nothing."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from .background import BackgroundWriter


class Timed(Protocol):
    @property
    def time(self) -> float:
        """Seconds since 1970."""


Line = TypeVar("Line", bound=Timed)


class LineFile(BackgroundWriter[Line]):
    """Appends records to a file.

    Several processes may append to the same file. A file that was moved away is begun again.
    Raises OSError if the file cannot be opened.
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
        """A line for each record. Raises OSError where something beside the lines cannot be written."""
        return b"".join([self._encode(record) + b"\n" for record in records])

    def written(self) -> None:
        """Called after a write."""

    def write(self, batch: list[Line]) -> None:
        refused = self._refused
        try:
            self.open_replaced()
            text = self.text(batch)
            if dropped := self.lost(refused):
                text = self._encode({"time": batch[0].time, "dropped": dropped}) + b"\n" + text
            if self._torn:
                text = b"\n" + text
            written = os.write(self._descriptor, text)
        except OSError as error:
            self.lose(len(batch), error.strerror or str(error))
            return
        except Exception as error:  # of one record; the thread goes on with the next ones
            self.lose(len(batch), f"{type(error).__name__}: {error}")
            return
        if written < len(text):
            self._torn = not text[:written].endswith(b"\n")
            self.lose(min(text[written:].count(b"\n"), len(batch)), "the disk is full")
            return
        self._torn = False
        self.settle(refused)
        self.written()

    def open_replaced(self) -> None:
        """Open the path again if another file, or none, is there now."""
        self._descriptor = self.reopen(self._target, self._descriptor)

    @staticmethod
    def open_private(path: str) -> int:
        """Open a file to append to it, which its owner alone may read if it is new. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @classmethod
    def reopen(cls, path: str, descriptor: int) -> int:
        """The descriptor of a file, or a new one if another file, or none, is at its path now. Raises OSError."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        new = cls.open_private(path)
        os.close(descriptor)
        return new
