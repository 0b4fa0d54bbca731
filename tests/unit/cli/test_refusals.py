"""Each command tells what it refuses, and ends with 1."""

from pathlib import Path

import pytest

from inferstream.cli.refusals import report_errors
from inferstream.errors import InvalidSettings


@report_errors
def read(path: Path, code: int = 0) -> int:
    """Read a file."""
    if path.name == "wrong":
        raise InvalidSettings("the name is wrong")
    path.read_bytes()
    return code


def test_refusal_is_one_line_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(Path("wrong")) == 1
    assert capsys.readouterr() == ("", "error: the name is wrong\n")
    missing = tmp_path / "missing"
    assert read(missing) == 1
    assert capsys.readouterr() == ("", f"error: {missing}: No such file or directory\n")


def test_exit_codes_and_other_errors_propagate(tmp_path: Path) -> None:
    assert read(Path(__file__), code=3) == 3
    with pytest.raises(AttributeError):
        read(None)  # type: ignore[arg-type]
