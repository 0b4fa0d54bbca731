"""Unpacks archives. What a member may write is decided here, because Python's data filter can be bypassed."""

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
"""Bytes of a member's path. The system does not resolve much longer ones, so a check that resolves them stops early."""

MAX_DEPTH = 64
"""Folders of a member's path, each of which has to be made."""


MOST_MEMBERS = 10_000
FREELY = 2**28
"""Bytes that any archive may hold, however small it is."""

RATIO = 20
"""Beyond these, how many times its size an archive may hold. Weights shrink little; zeros shrink a thousandfold."""

LARGEST_READ = 2**16
"""Bytes of one read. Content is copied in smaller pieces; headers with names and attributes are read whole."""

COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
"""By the first bytes of an archive."""


class UnsafeArchive(ValueError):
    """A member of the archive would write, or lead, outside its folder, or the archive holds too much."""


class _Bounded:
    """The content of an archive. Raises UnsafeArchive beyond `most` bytes, and for a header that is too large."""

    def __init__(self, opened: IO[bytes], most: int) -> None:
        self._opened = opened
        self._most = most
        self.tell = opened.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= LARGEST_READ:
            raise UnsafeArchive(f"a header of a member has more than {LARGEST_READ:,} bytes")
        self._check(self.tell() + size)
        return self._opened.read(size)

    def seek(self, position: int) -> int:
        self._check(position)
        return self._opened.seek(position)

    def _check(self, position: int) -> None:
        if position > self._most:
            raise UnsafeArchive(f"it holds more than {self._most:,} bytes")


class Unpacker:
    """Unpacks archives into empty folders. All of them together have at most so many `members`.

    No member is written through a link, so that lexical paths are the real ones. Raises UnsafeArchive, which names
    the member.
    """

    def __init__(self, members: int | None = None) -> None:
        self._members = MOST_MEMBERS if members is None else members

    def unpack_tar(self, archive: Path, folder: Path, most: float = inf) -> int:
        """Unpack a tar archive of at most `most` bytes, compressed or not; return its bytes.

        Python's filter resolves paths that it then does not use, and before 3.11.13 none that is too long
        (CVE-2025-4517).
        """
        import tarfile  # late: few servers unpack anything

        limit = int(min(most, _limit_of(archive)))
        count = size = 0

        def checked(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
            nonlocal count, size
            count, size = count + 1, size + max(member.size, 0)
            if count > self._members:
                raise UnsafeArchive(f"it has more than {self._members:,} members")
            if size > limit:
                raise UnsafeArchive(f"its members have more than {limit:,} bytes")
            # The system resolves `link/..` to the parent of the link's target, so no such path is used.
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
            bounded: Any = _Bounded(content, 2 * limit)  # each member has a header too
            with tarfile.open(fileobj=bounded, mode="r:") as opened:
                opened.extractall(folder, filter=checked)
        self._members -= count
        return size

    def unpack_zip(self, archive: Path, folder: Path) -> None:
        """Unpack a zip archive, which has no links. Raises BadZipFile for a broken one.

        None of its members becomes longer than the archive says.
        """
        import zipfile  # late: few servers unpack anything

        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if len(members) > self._members:
                raise UnsafeArchive(f"it has more than {self._members} members")
            total = sum(member.file_size for member in members)
            if total > _limit_of(archive):
                raise UnsafeArchive(f"its members have {total} bytes, more than {RATIO} times its own")
            for member in members:
                _write_member(opened, member, folder)
        self._members -= len(members)


def _limit_of(archive: Path) -> int:
    """Bytes that an archive of its size may hold."""
    return max(FREELY, RATIO * archive.stat().st_size)


def _write_member(archive: "zipfile.ZipFile", member: "zipfile.ZipInfo", folder: Path) -> None:
    path = member.filename
    if stat.S_ISLNK(member.external_attr >> 16):
        raise UnsafeArchive(f'its member "{path}" is a link')
    reason = _too_long(path) or ("has a path that leads outside" if _leaves(normpath(path)) else None)
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
    """Why a member may not be written after all those before it; None if it may."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return "is neither a file, a folder nor a link"
    name, target = member.name, member.linkname
    if member.size < 0:
        return "has a negative size"
    if "\0" in name + target:
        return "has a path with a null byte"
    if _leaves(name) or _meets_a_link(folder, name):
        return "has a path that leads outside or through a link"
    if member.issym() and (
        os.path.isabs(target) or _leaves(normpath(os.path.join(os.path.dirname(name), target)))
    ):
        return f'is a link to "{target}", outside the archive'
    if member.islnk() and (
        _leaves(target) or _meets_a_link(folder, target) or not stat.S_ISREG(_mode(folder / target))
    ):
        return f'is a hard link to "{target}", which is no file of the archive before it'
    return None


def _leaves(path: str) -> bool:
    return os.path.isabs(path) or path.split("/")[0] == ".."


def _meets_a_link(folder: Path, path: str) -> bool:
    """Whether the path is a link that was unpacked before, or leads through one."""
    parts = path.split("/")
    return any(stat.S_ISLNK(_mode(folder.joinpath(*parts[:i]))) for i in range(1, len(parts) + 1))


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
