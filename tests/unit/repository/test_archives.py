"""What an archive may unpack: nothing outside its folder, and environments whole."""

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inferstream.repository import archives
from inferstream.repository.archives import MAX_PATH, Unpacker, UnsafeArchive

Members = Iterator[tuple[tarfile.TarInfo, bytes]]


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, target, mode
    return found


def file(name: str, content: bytes = b"written", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, mode=mode), content


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.DIRTYPE, mode=0o755), b""


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.SYMTYPE, target), b""


def hard(name: str, target: str, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.LNKTYPE, target, mode), b""


def made(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def far_from(outside: Path) -> Members:
    """CVE-2025-4517: a chain of links so long that resolving it stops, and the rest is taken as it reads."""
    long, steps, path = "d" * 247, "abcdefghijklmnop", ""
    for step in steps:
        yield folder(os.path.join(path, long))
        yield link(os.path.join(path, step), long)
        path = os.path.join(path, long)
    deep = os.path.join("/".join(steps), "l" * 254)
    yield link(deep, "../" * len(steps))
    yield link("escape", f"{deep}/../{outside.name}")
    yield hard("flag", "escape/victim")
    yield file("flag")


ATTACKS: dict[str, Callable[[Path], Members]] = {
    "an absolute path": lambda outside: iter([file(f"{outside}/victim")]),
    "a path upwards": lambda outside: iter([file(f"../{outside.name}/victim")]),
    "an absolute link": lambda outside: iter([link("l", str(outside)), file("l/victim")]),
    "a link upwards": lambda outside: iter([link("l", f"../{outside.name}"), file("l/victim")]),
    "a link to a file": lambda outside: iter([link("l", f"../{outside.name}/victim"), file("l")]),
    "a link upwards from a link": lambda outside: iter(
        [
            folder("a/b"),
            link("a/b/top", "../.."),
            link("up", f"a/b/top/../{outside.name}"),
            file("up/victim"),
        ]
    ),
    "a path upwards from a link": lambda outside: iter(
        [link("l", "."), file(f"l/../{outside.name}/victim"), file("../" + outside.name + "/new")]
    ),
    "a link made elsewhere through a link": lambda outside: iter(
        [folder("a/b"), link("a/b/top", "../.."), link("a/b/top/l", f"../{outside.name}"), file("l/victim")]
    ),
    "a hard link": lambda outside: iter([hard("h", f"../{outside.name}/victim", 0o777), file("h")]),
    "an absolute hard link": lambda outside: iter([hard("h", f"{outside}/victim", 0o777), file("h")]),
    "a hard link through a link": lambda outside: iter(
        [link("l", "a/b"), folder("a/b"), file("a/b/x"), hard("h", "l/x", 0o777)]
    ),
    "a hard link to a link": lambda outside: iter(
        [folder("a"), link("a/l", f"../a/../{outside.name}"), hard("l", "a/l"), file("l/victim")]
    ),
    "a hard link to nothing": lambda outside: iter([hard("h", "later"), file("later")]),
    "an overlong chain": far_from,
    "a device": lambda outside: iter([(member("d", tarfile.CHRTYPE), b"")]),
    "a pipe": lambda outside: iter([(member("p", tarfile.FIFOTYPE), b"")]),
    "an overlong path": lambda outside: iter([file("/".join(["d" * 200] * 6))]),
    "an overlong link": lambda outside: iter([link("l", "/".join(["d" * 200] * 6))]),
    "a null byte": lambda outside: iter([(nulled(), b"")]),
}


def nulled() -> tarfile.TarInfo:
    found = member("plain")
    found.pax_headers = {"path": "a\0b"}
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_extraction_does_not_touch_outside_files(tmp_path: Path, attack: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "victim"
    victim.write_text("untouched")
    victim.chmod(0o600)
    archive = made(tmp_path / "hostile.tar.gz", ATTACKS[attack](outside))
    (tmp_path / "unpacked").mkdir()
    with pytest.raises(UnsafeArchive, match=r'^its member "'):
        Unpacker().unpack_tar(archive, tmp_path / "unpacked")
    assert victim.read_text() == "untouched"
    assert victim.stat().st_mode & 0o777 == 0o600
    assert victim.stat().st_nlink == 1
    assert os.listdir(outside) == ["victim"]


def test_environment_is_extracted_completely(tmp_path: Path) -> None:
    members = iter(
        [
            folder("."),
            file("./bin/python3.11", b"program", 0o755),
            link("./bin/python", "python3.11"),
            hard("./bin/python3", "./bin/python3.11", 0o755),
            file("lib/libz.so.1", b"library"),
            link("lib/libz.so", "libz.so.1"),
            link("lib64", "lib"),
            file("share/terminfo/x/xterm", b"terminal"),
            link("lib/terminfo", "../share/terminfo"),
            link("share/through", "../bin/../lib/libz.so"),
            link("share/nothing", "missing"),
            file("empty", b""),
        ]
    )
    archive = made(tmp_path / "environment.tar.gz", members)
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    Unpacker().unpack_tar(archive, unpacked)
    for name in ("python", "python3", "python3.11"):
        assert (unpacked / "bin" / name).read_bytes() == b"program"
        assert os.access(unpacked / "bin" / name, os.X_OK)
    assert (unpacked / "bin/python3").stat().st_nlink == 2
    assert not (unpacked / "lib/libz.so").stat().st_mode & 0o111
    assert (unpacked / "lib64/libz.so").read_bytes() == b"library"
    assert (unpacked / "share/through").read_bytes() == b"library"
    assert (unpacked / "lib/terminfo/x/xterm").read_bytes() == b"terminal"
    assert (unpacked / "share/nothing").is_symlink()


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_zip_files_are_extracted(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.zip", {"deep/er/file": b"b", "empty/": b""})
    folder = tmp_path / "unpacked"
    folder.mkdir()
    Unpacker().unpack_zip(path, folder)
    assert (folder / "deep/er/file").read_bytes() == b"b"
    assert (folder / "empty").is_dir()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/tmp/out", "a/../../../etc/x", "b/" * MAX_PATH])
def test_zip_member_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    path = zipped(tmp_path / "m.zip", {name: b"written"})
    folder = tmp_path / "unpacked"
    folder.mkdir()
    with pytest.raises(UnsafeArchive):
        Unpacker().unpack_zip(path, folder)
    assert not (tmp_path / "out").exists()


def test_zip_member_is_not_a_link(tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w") as opened:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(link, "/etc/passwd")
    with pytest.raises(UnsafeArchive, match='"link" is a link'):
        Unpacker().unpack_zip(path, tmp_path)


def test_zip_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "m.zip", {"zeros": b"\0" * 1_000_000, "other": b""})
    monkeypatch.setattr(archives, "FREELY", 100_000)
    with pytest.raises(UnsafeArchive, match="more than 20 times its own"):
        Unpacker().unpack_zip(path, tmp_path)
    assert not (tmp_path / "zeros").exists()
    monkeypatch.undo()
    monkeypatch.setattr(archives, "MAX_MEMBERS", 1)
    with pytest.raises(UnsafeArchive, match="more than 1 members"):
        Unpacker().unpack_zip(path, tmp_path)


def test_zip_member_is_not_longer_than_declared(tmp_path: Path) -> None:
    """A member whose size in the directory is a lie: the rest of it is not written."""
    path = zipped(tmp_path / "m.zip", {"zeros": b"\0" * 1_000_000})
    content = path.read_bytes()
    assert content.count((1_000_000).to_bytes(4, "little")) == 2
    path.write_bytes(content.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(zipfile.BadZipFile):
        Unpacker().unpack_zip(path, tmp_path)
    assert (tmp_path / "zeros").stat().st_size <= 10
