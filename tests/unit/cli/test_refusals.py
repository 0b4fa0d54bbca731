"""Each command tells what it refuses, and ends with 1."""

from pathlib import Path

import pytest

from inferstream.cli.refusals import told
from inferstream.errors import InvalidSettings


@told
def read(path: Path, code: int = 0) -> int:
    """Read a file."""
    if path.name == "wrong":
        raise InvalidSettings("the name is wrong")
    path.read_bytes()
    return code


def test_what_is_refused_is_a_line_and_the_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(Path("wrong")) == 1
    assert capsys.readouterr() == ("", "error: the name is wrong\n")
    missing = tmp_path / "missing"
    assert read(missing) == 1
    assert capsys.readouterr() == ("", f"error: {missing}: No such file or directory\n")


def test_the_code_of_a_command_and_its_other_errors_pass(tmp_path: Path) -> None:
    assert read(Path(__file__), code=3) == 3
    with pytest.raises(AttributeError):
        read(None)  # type: ignore[arg-type]
