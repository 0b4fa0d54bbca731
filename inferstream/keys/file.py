"""The file of keys: read again when it changes, and rewritten as a whole."""

import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from inferstream.ext.settings import read_file

from ..errors import InvalidSettings
from .document import Document, merged, parsed, written

logger = logging.getLogger("inferstream.keys")

VARIABLE = "INFERSTREAM_KEYS"
"""The environment variable with a document of keys."""

SETTLED = 2 * 10**9
"""Nanoseconds after which a later change of a file is sure to change its time."""

Stamp = tuple[int, int, int, int]
"""What tells one state of a file from another: device, inode, size and time."""


class KeySource:
    """The documents of the file and of the environment, either of which may be absent."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._stamp: Stamp | None = None
        self._fault = ""

    def read(self) -> Document:
        """The keys of both sources. Raises InvalidSettings, which names the source."""
        document = Document(keys=[])
        if self._path is not None:
            document = self._read_file(self._path)
        if text := os.environ.get(VARIABLE):
            more = parsed(text, VARIABLE)
            document = merged(document, more, f"{self._path} and {VARIABLE}")
        return document

    def read_again(self) -> Document | None:
        """The keys if the file has changed. None otherwise, and for a broken file, whose fault is logged once.

        It blocks for as long as the file takes, and is for a thread.
        """
        if self._path is None:
            return None
        try:
            if self._stamp is not None and _stamp(os.stat(self._path)) == self._stamp:
                return None
            document = self.read()
        except InvalidSettings as error:
            self._report(error.message)
            return None
        except OSError as error:
            self._report(f"{self._path}: {error.strerror}")
            return None
        if self._fault:
            self._fault = ""
            logger.warning("%s is valid again", self._path)
        return document

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            logger.error("the keys stay as they were: %s", fault)

    def _read_file(self, path: Path) -> Document:
        self._stamp = None
        text, status = read_file(path)
        if status.st_mode & stat.S_IWOTH:
            logger.warning(
                "%s may be written by all users of this machine: each of them can make a key", path
            )
        settled = abs(time.time_ns() - status.st_mtime_ns) > SETTLED
        self._stamp = _stamp(status) if settled else None
        return parsed(text, str(path))


def read_keys(path: Path) -> Document:
    """The keys of a file. Raises InvalidSettings."""
    return parsed(read_file(path)[0], str(path))


def edit(path: Path, change: Callable[[Document], None]) -> None:
    """Replace the file by a changed one, which may be new. Others who edit it wait.

    Raises InvalidSettings for a broken file, and what `change` raises; then the file stays as it is.
    """
    path = path.resolve()  # a link stays one
    try:
        with _locked(path):
            document = read_keys(path) if path.exists() else Document(keys=[])
            change(document)
            text = written(document)
            parsed(text, str(path))
            replace(path, text)
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None


def replace(path: Path, text: bytes) -> None:
    """Replace a file at once, readable by its owner only, so that a crash leaves the old or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            with suppress(OSError):  # the server may run as another user than root, who edits
                before = path.stat()
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A file beside it, because the file itself is replaced.
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
