"""Makes a wheel of the package as it runs here, for images: no index has it."""

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distributions, version
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
VERSION = version("inferstream")
NAME = f"inferstream-{VERSION}-py3-none-any.whl"

DIST_INFO = f"inferstream-{VERSION}.dist-info"
COPIED = ("METADATA", "entry_points.txt")
"""Files that say the same of an editable installation and of a wheel."""

WHEEL = "Wheel-Version: 1.0\nGenerator: inferstream\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every file, so that equal packages make equal wheels, and images keep their layers."""


def write_wheel(folder: Path) -> Path:
    """Write the wheel into `folder`. Raises OSError."""
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
    # The egg-info of a checkout comes first where the checkout is the current folder, and holds no METADATA.
    installed = [each for each in distributions(name="inferstream") if each.read_text("METADATA") is not None]
    for name in COPIED:
        yield f"{DIST_INFO}/{name}", (installed[0].read_text(name) or "").encode()
    yield f"{DIST_INFO}/WHEEL", WHEEL.encode()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, FIRST_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
