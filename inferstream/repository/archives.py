"""Unpacks archives. What a member may write is decided here, because Python's data filter can be bypassed."""

import os
import stat
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tarfile

MAX_PATH = 1024
"""Bytes of a member's path. The system does not resolve much longer ones, so a check that resolves them stops early."""


class UnsafeArchive(ValueError):
    """A member of the archive would write, or lead, outside its folder."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive into an empty folder. Raises UnsafeArchive, which names the member.

    Python's filter resolves paths that it then does not use, and before 3.11.13 none that is too long
    (CVE-2025-4517). Here no member is written through a link, so that lexical paths are the real ones.
    """
    import tarfile  # late: few servers unpack anything

    def checked(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        # The system resolves `link/..` to the parent of the link's target, so no such path is used.
        lexical = member.replace(name=normpath(member.name), linkname=normpath(member.linkname), deep=False)
        reason = _too_long(member.name) or _too_long(member.linkname) or _fault(lexical, folder)
        if reason is not None:
            raise UnsafeArchive(f'its member "{member.name[:MAX_PATH]}" {reason}')
        return tarfile.data_filter(lexical, path)

    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter=checked)


def refuse_path(path: str) -> None:
    """Raise UnsafeArchive for the path of a member that would be outside its folder, where no member is a link."""
    reason = _too_long(path) or ("has a path that leads outside" if _leaves(normpath(path)) else None)
    if reason is not None:
        raise UnsafeArchive(f'its member "{path[:MAX_PATH]}" {reason}')


def _too_long(path: str) -> str | None:
    return f"has a path of more than {MAX_PATH} bytes" if len(os.fsencode(path)) > MAX_PATH else None


def _fault(member: "tarfile.TarInfo", folder: Path) -> str | None:
    """Why a member may not be written after all those before it; None if it may."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return "is neither a file, a folder nor a link"
    name, target = member.name, member.linkname
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
