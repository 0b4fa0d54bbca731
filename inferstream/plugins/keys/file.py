"""The keys file: reloading and atomic replacement."""

import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from inferstream.errors import HINT, InvalidSettings
from inferstream.ext.settings import read_file

from .document import Document, merge_documents, parse_document, serialize

logger = logging.getLogger("inferstream.keys")

VARIABLE = "INFERSTREAM_KEYS"
"""The environment variable that can hold a keys document."""

SETTLED = 2 * 10**9
"""Nanoseconds after a file's modification time from which another change is certain to alter that time."""

Stamp = tuple[int, int, int, int]
"""The identity of a file's state: device, inode, size and modification time."""


class KeySource:
    """The keys documents in the file and in the environment variable, both of which are optional."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._stamp: Stamp | None = None
        self._fault = ""

    def read(self) -> Document:
        """Read the keys of both sources. Raises InvalidSettings, with a message that names the source."""
        document = Document(keys=[])
        if self._path is not None:
            document = self._read_file(self._path)
        if text := os.environ.get(VARIABLE):
            more = parse_document(text, VARIABLE)
            document = merge_documents(document, more, f"{self._path} and {VARIABLE}")
        return document

    def read_if_changed(self) -> Document | None:
        """Reload the keys if the file has changed, otherwise return None.

        Also returns None for an invalid file, which is logged once. Blocks on file access, so call it in a
        thread.
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
            logger.error("keys not reloaded, the previous keys stay in use: %s", fault)

    def _read_file(self, path: Path) -> Document:
        self._stamp = None
        try:
            text, status = read_file(path)
        except InvalidSettings as error:
            if path.exists():
                raise
            command = f"server keys add --principal NAME --file {path}"
            raise InvalidSettings(f"{error.message}{HINT}make the first key with `{command}`") from None
        if status.st_mode & stat.S_IWOTH:
            logger.warning(
                "%s is writable by every user of this machine, so each can create keys; run `chmod o-w` on it",
                path,
            )
        settled = abs(time.time_ns() - status.st_mtime_ns) > SETTLED
        self._stamp = _stamp(status) if settled else None
        return parse_document(text, str(path))


def read_keys(path: Path) -> Document:
    """Read the keys of a file. Raises InvalidSettings."""
    return parse_document(read_file(path)[0], str(path))


def edit(path: Path, change: Callable[[Document], None]) -> None:
    """Apply `change` to the document in the file, which is created if it is missing.

    Holds a lock that excludes other editors.

    Raises InvalidSettings if the file is invalid, and the errors of `change`. In both cases, the file is
    unchanged.
    """
    path = path.resolve()  # Replaces the target of a symbolic link, not the link.
    try:
        with _lock_file(path):
            document = read_keys(path) if path.exists() else Document(keys=[])
            change(document)
            text = serialize(document)
            parse_document(text, str(path))
            replace(path, text)
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None


def replace(path: Path, text: bytes) -> None:
    """Replace a file atomically, readable only by its owner.

    A crash leaves either the old or the new contents.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            # Keep the owner: root may edit the file while the server runs as another user.
            with suppress(OSError):
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
def _lock_file(path: Path) -> Iterator[None]:
    # A separate lock file, because the keys file itself is replaced.
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
