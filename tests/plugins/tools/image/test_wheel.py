"""A wheel of the package as it is installed here, editable or not."""

import base64
import hashlib
import zipfile
from email import message_from_bytes
from pathlib import Path

import inferstream
from inferstream.plugins.tools.image.wheel import NAME, PACKAGE, write_wheel

INFO = f"inferstream-{inferstream.__version__}.dist-info"


def test_wheel_contains_package_and_pip_metadata(tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    assert path == tmp_path / NAME
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert archive.read("inferstream/__init__.py") == (PACKAGE / "__init__.py").read_bytes()
        files = (each for each in PACKAGE.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        assert {f"inferstream/{each.relative_to(PACKAGE)}" for each in files} <= {*names}, "data too"
        assert not [name for name in names if "__pycache__" in name]
        metadata = message_from_bytes(archive.read(f"{INFO}/METADATA"))
        assert (metadata["Name"], metadata["Version"]) == ("inferstream", inferstream.__version__)
        assert "sklearn" in metadata.get_all("Provides-Extra", [])
        assert b"server = inferstream.cli.main:app" in archive.read(f"{INFO}/entry_points.txt")
        rows = dict(row.split(",", 1) for row in archive.read(f"{INFO}/RECORD").decode().splitlines())
        assert rows.keys() == {*names}
        for name in (each for each in names if not each.endswith("/RECORD")):
            digest = hashlib.sha256(archive.read(name)).digest()
            assert rows[name].startswith(f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},")


def test_wheel_is_reproducible(tmp_path: Path) -> None:
    first = write_wheel(tmp_path).read_bytes()
    assert write_wheel(tmp_path).read_bytes() == first
