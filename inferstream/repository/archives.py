"""Safe unpacking of archives. Members are checked here, because Python's data filter can be bypassed."""

import bz2
import gzip
import lzma
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import closing
from math import inf
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tarfile
    import zipfile

MAX_PATH = 1024
"""The maximum length of a member's path, in bytes.

The operating system does not resolve much longer paths, so a check that resolves paths would be incomplete.
"""

MAX_DEPTH = 64
"""The maximum depth of a member's path, because each folder has to be created."""


MAX_MEMBERS = 10_000
FREELY = 2**28
"""The unpacked size that is always allowed, in bytes, even for a small archive."""

RATIO = 20
"""The maximum ratio of unpacked to packed size, for an unpacked size above `FREELY`.

Weights compress little, but zeros compress a thousandfold.
"""

MAX_READ_SIZE = 2**16
"""The maximum size of a single read, in bytes.

Content is copied in smaller chunks, but headers are read as a whole.
"""

COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
"""The functions that open compressed archives, by their magic bytes."""


class UnsafeArchive(ValueError):
    """A member would be written to, or link to, a path outside the folder, or the archive is too large."""


class _Bounded:
    """Reads the content of an archive, up to a size limit.

    Raises UnsafeArchive after `most` bytes, or for a header that is too large.
    """

    def __init__(self, opened: IO[bytes], most: int) -> None:
        self._opened = opened
        self._most = most
        self.tell = opened.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= MAX_READ_SIZE:
            raise UnsafeArchive(f"a header of a member has more than {MAX_READ_SIZE:,} bytes")
        self._check(self.tell() + size)
        return self._opened.read(size)

    def seek(self, position: int) -> int:
        self._check(position)
        return self._opened.seek(position)

    def _check(self, position: int) -> None:
        if position > self._most:
            raise UnsafeArchive(f"it holds more than {self._most:,} bytes")


class Unpacker:
    """Unpacks archives into empty folders. `members` limits the total number of members.

    No member is written through a link, so lexical paths are equal to resolved paths. Raises UnsafeArchive
    naming the member.
    """

    def __init__(self, members: int | None = None) -> None:
        self._members = MAX_MEMBERS if members is None else members

    def unpack_tar(self, archive: Path, folder: Path, most: float = inf) -> int:
        """Unpack a tar archive, compressed or not, and return its unpacked size, at most `most` bytes.

        Python's filter resolves paths but then uses the original ones, and before 3.11.13 it does not resolve
        paths that are too long (CVE-2025-4517).
        """
        import tarfile  # imported lazily: rarely needed

        limit = int(min(most, _unpacked_limit(archive)))
        count = size = 0

        def check(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
            nonlocal count, size
            count, size = count + 1, size + max(member.size, 0)
            if count > self._members:
                raise UnsafeArchive(f"it has more than {self._members:,} members")
            if size > limit:
                raise UnsafeArchive(f"its members have more than {limit:,} bytes")
            # The operating system resolves `link/..` to the parent of the link's target, so such paths are
            # normalized.
            lexical = member.replace(
                name=normpath(member.name), linkname=normpath(member.linkname), deep=False
            )
            reason = _too_long(member.name) or _too_long(member.linkname) or _fault(lexical, folder)
            if reason is not None:
                raise UnsafeArchive(f'its member "{member.name[:MAX_PATH]}" {reason}')
            return tarfile.data_filter(lexical, path)

        with archive.open("rb") as file:
            start = file.read(6)
        decompress = next((by for magic, by in COMPRESSIONS.items() if start.startswith(magic)), open)
        with closing(decompress(archive, "rb")) as content:
            bounded: Any = _Bounded(content, 2 * limit)  # headers count as well
            with tarfile.open(fileobj=bounded, mode="r:") as opened:
                opened.extractall(folder, filter=check)
        self._members -= count
        return size

    def unpack_zip(self, archive: Path, folder: Path) -> None:
        """Unpack a zip archive, in which links are not allowed. Raises BadZipFile if it is damaged.

        Members cannot be larger than their size in the archive's directory.
        """
        import zipfile  # imported lazily: rarely needed

        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if len(members) > self._members:
                raise UnsafeArchive(f"it has more than {self._members} members")
            total = sum(member.file_size for member in members)
            if total > _unpacked_limit(archive):
                raise UnsafeArchive(f"its members have {total} bytes, more than {RATIO} times its own")
            for member in members:
                _write_member(opened, member, folder)
        self._members -= len(members)


def _unpacked_limit(archive: Path) -> int:
    """Return the allowed unpacked size of an archive, in bytes."""
    return max(FREELY, RATIO * archive.stat().st_size)


def _write_member(archive: "zipfile.ZipFile", member: "zipfile.ZipInfo", folder: Path) -> None:
    path = member.filename
    if stat.S_ISLNK(member.external_attr >> 16):
        raise UnsafeArchive(f'its member "{path}" is a link')
    reason = _too_long(path) or ("has a path that leads outside" if _is_outside(normpath(path)) else None)
    if reason is not None:
        raise UnsafeArchive(f'its member "{path[:MAX_PATH]}" {reason}')
    target = folder / PurePosixPath(path)
    if member.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("wb") as output:
        shutil.copyfileobj(source, output, 2**20)


def _too_long(path: str) -> str | None:
    if path.count("/") > MAX_DEPTH:
        return f"has a path of more than {MAX_DEPTH} folders"
    return f"has a path of more than {MAX_PATH} bytes" if len(os.fsencode(path)) > MAX_PATH else None


def _fault(member: "tarfile.TarInfo", folder: Path) -> str | None:
    """Return the reason why a member must not be written after the previous members, or None."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return "is neither a file, a folder nor a link"
    name, target = member.name, member.linkname
    if member.size < 0:
        return "has a negative size"
    if "\0" in name + target:
        return "has a path with a null byte"
    if _is_outside(name) or _passes_link(folder, name):
        return "has a path that leads outside or through a link"
    if member.issym() and (
        os.path.isabs(target) or _is_outside(normpath(os.path.join(os.path.dirname(name), target)))
    ):
        return f'is a link to "{target}", outside the archive'
    if member.islnk() and (
        _is_outside(target) or _passes_link(folder, target) or not stat.S_ISREG(_mode(folder / target))
    ):
        return f'is a hard link to "{target}", which is no file of the archive before it'
    return None


def _is_outside(path: str) -> bool:
    return os.path.isabs(path) or path.split("/")[0] == ".."


def _passes_link(folder: Path, path: str) -> bool:
    """Whether the path is, or leads through, a link that was already unpacked."""
    parts = path.split("/")
    return any(stat.S_ISLNK(_mode(folder.joinpath(*parts[:i]))) for i in range(1, len(parts) + 1))


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
