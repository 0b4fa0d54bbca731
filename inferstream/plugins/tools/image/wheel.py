"""Builds a wheel from the running package, for images that cannot install it from an index."""

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distributions, version
from pathlib import Path

import inferstream

PACKAGE = Path(str(inferstream.__file__)).parent
VERSION = version("inferstream")
NAME = f"inferstream-{VERSION}-py3-none-any.whl"

DIST_INFO = f"inferstream-{VERSION}.dist-info"
COPIED = ("METADATA", "entry_points.txt")
"""Metadata files that are the same in an editable installation and in a wheel."""

WHEEL = "Wheel-Version: 1.0\nGenerator: inferstream\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The timestamp of every file, so that builds are reproducible and image layers are cached."""


def write_wheel(folder: Path) -> Path:
    """Write the wheel into `folder` and return its path. Raises OSError."""
    path = folder / NAME
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _contents():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            archive.writestr(_entry(name), content)
        archive.writestr(
            _entry(f"{DIST_INFO}/RECORD"), "".join([*record, f"{DIST_INFO}/RECORD,,\n"]).encode()
        )
    return path


def _contents() -> Iterator[tuple[str, bytes]]:
    for file in sorted(PACKAGE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(PACKAGE.parent).as_posix(), file.read_bytes()
    # A checkout's egg-info precedes the installation if the checkout is the current folder, but has no
    # METADATA.
    installed = [each for each in distributions(name="inferstream") if each.read_text("METADATA") is not None]
    for name in COPIED:
        yield f"{DIST_INFO}/{name}", (installed[0].read_text(name) or "").encode()
    yield f"{DIST_INFO}/WHEEL", WHEEL.encode()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, FIRST_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
