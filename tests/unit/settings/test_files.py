"""Files that settings name."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.settings import files
from inferstream.settings.files import read_file


def test_file_has_content_and_state(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"ab")
    path.chmod(0o600)
    content, status = read_file(path)
    assert (content, status.st_size, status.st_mode & 0o777) == (b"ab", 2, 0o600)


def test_missing_special_or_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSettings, match=r"there is no such file$"):
        read_file(tmp_path / "none")
    with pytest.raises(InvalidSettings, match="there is no such file; looked for /"):
        read_file(Path("none-here"))
    with pytest.raises(InvalidSettings, match="not a regular file"):
        read_file(tmp_path)
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    path = tmp_path / "large"
    path.write_bytes(b"a" * 11)
    with pytest.raises(InvalidSettings, match="larger than 10 bytes"):
        read_file(path)
