"""`server alias` writes a copy of its own script, and nothing over another command."""

import sys
from pathlib import Path

import pytest

from inferstream.plugins.mlserver import alias

Said = pytest.CaptureFixture[str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that runs, where no package has the other name."""
    path = tmp_path / "server"
    path.write_text("#!/usr/bin/env python\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(path), "alias", "mlserver"])
    monkeypatch.setattr(alias, "can_import", lambda name: False)
    return path


def test_copy_behaves_like_command_and_is_written_once(command: Path, capsys: Said) -> None:
    written = command.with_name("mlserver")
    for _ in range(2):
        assert alias.run("mlserver") == 0
        assert written.read_bytes() == command.read_bytes()
        assert written.stat().st_mode == command.stat().st_mode
        assert capsys.readouterr().err == f"{written} is the command server\n"


def test_name_unused_by_scripts_is_refused(command: Path, capsys: Said) -> None:
    assert alias.run("triton") == 1
    assert capsys.readouterr().err == (
        'error: "triton" is no name for this command; it may be called: mlserver\n'
    )
    assert [*command.parent.iterdir()] == [command]


def test_other_command_is_not_overwritten(command: Path, capsys: Said) -> None:
    command.with_name("mlserver").write_text("another")
    assert alias.run("mlserver") == 1
    assert "mlserver is another command already; nothing was written" in capsys.readouterr().err
    assert command.with_name("mlserver").read_text() == "another"


def test_installed_package_keeps_its_command(
    command: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alias, "can_import", lambda name: True)
    assert alias.run("mlserver") == 1
    assert "mlserver is installed, and its command is its own" in capsys.readouterr().err
    assert not command.with_name("mlserver").exists()


def test_foreign_program_is_not_copied(command: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(command.with_name("__main__.py"))])
    assert alias.run("mlserver") == 1
    assert "__main__.py cannot be copied; call it as `server alias mlserver`" in capsys.readouterr().err
