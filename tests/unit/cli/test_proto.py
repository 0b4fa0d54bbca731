"""`server proto` writes the `.proto` file and the lock file of an app, and checks them."""

import sys
from pathlib import Path

import pytest

from inferstream.cli.proto import run
from inferstream.errors import InvalidSettings
from inferstream.repository.apps import load_app

APP = """
from inferstream import App

app = App({options})


@app.model
def add({arguments}) -> int:
    "Adds."
    return 0
"""

Said = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write(tmp_path)
    return tmp_path


def write(folder: Path, arguments: str = "a: int, b: int = 1", options: str = "") -> None:
    (folder / "priced.py").write_text(APP.format(arguments=arguments, options=options))


def test_both_files_are_written_once(folder: Path, capsys: Said) -> None:
    assert run("priced:app", folder / "out", check=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrote out/priced.proto",
        "wrote priced.app.proto-lock.json",
    ]
    assert "  rpc PredictAdd(AddRequest) returns (AddResponse);" in (folder / "out/priced.proto").read_text()
    assert run("priced.py", folder / "out", check=True) == 0
    assert run("priced.py", folder / "out", check=False) == 0
    assert capsys.readouterr().out.count("has not changed") == 2


def test_classic_app_has_the_blazerpc_file(folder: Path) -> None:
    write(folder, options='service="blazerpc.InferenceService", classic=True')
    assert run("priced:app", folder, check=False) == 0
    assert "package blazerpc;" in (folder / "blaze_service.proto").read_text()


def test_check_names_changes_without_writing(folder: Path, capsys: Said) -> None:
    assert run("priced:app", folder, check=True) == 1
    said = capsys.readouterr().err
    assert 'argument "a" of model "add" is new, int64 with number 1' in said
    assert "error: priced.app.proto-lock.json would change" in said
    assert "error: priced.proto is missing; `server proto` without --check writes it" in said
    assert [file.name for file in folder.iterdir()] == ["priced.py"]

    run("priced:app", folder, check=False)
    before = {file: file.read_text() for file in folder.glob("priced.*") if file.suffix != ".py"}
    write(folder, "c: str, a: int")
    assert run("priced:app", folder, check=True) == 1
    said = capsys.readouterr().err
    assert 'argument "b" of model "add" is gone, and number 2 stays reserved' in said
    assert 'argument "c" of model "add" is new, string with number 3' in said
    assert "error: priced.proto would change: line " in said
    assert {file: file.read_text() for file in before} == before


def test_field_numbers_are_stable_when_arguments_change(folder: Path) -> None:
    run("priced:app", folder, check=False)
    write(folder, "c: str, a: int")
    assert run("priced:app", folder, check=False) == 0
    text = (folder / "priced.proto").read_text()
    assert '  reserved 2;\n  reserved "b";\n  optional int64 a = 1;\n  optional string c = 3;' in text
    write(folder, "b: int, a: int")
    assert run("priced:app", folder, check=False) == 0
    text = (folder / "priced.proto").read_text()
    assert '  reserved 3;\n  reserved "c";\n  optional int64 a = 1;\n  optional int64 b = 2;' in text


def test_changed_type_of_a_field_number_is_refused_by_check_and_load(folder: Path, capsys: Said) -> None:
    run("priced:app", folder, check=False)
    before = (folder / "priced.app.proto-lock.json").read_text()
    write(folder, "a: str, b: int = 1")
    capsys.readouterr()
    for check in (False, True):
        assert run("priced:app", folder, check=check) == 1
        line = capsys.readouterr().err.splitlines()[0]
        for part in (
            "error: priced.py, line 7, function add",
            'model "add"',
            '"a" was int64 and is now string',
        ):
            assert part in line
    assert (folder / "priced.app.proto-lock.json").read_text() == before
    with pytest.raises(InvalidSettings, match='"a" was int64 and is now string'):
        load_app("priced:app", str(folder / "priced.py"))


def test_older_version_may_have_other_types(folder: Path) -> None:
    """The RPC is that of the version that answers calls without a version."""
    write(folder)
    code = (folder / "priced.py").read_text()
    code = code.replace("@app.model", '@app.model("add", version="10")')
    (folder / "priced.py").write_text(
        code + '\n\n@app.model("add", version="9")\ndef old(a: str) -> int:\n    return 0\n'
    )
    assert run("priced:app", folder, check=False) == 0
    assert run("priced:app", folder, check=True) == 0
    assert "  optional int64 a = 1;" in (folder / "priced.proto").read_text()


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        (".", "is a folder of models"),
        ("missing:app", "there is no module missing"),
        ("no.py", "there is no file"),
    ],
)
def test_non_app_target_is_refused_in_one_line(target: str, fault: str, folder: Path, capsys: Said) -> None:
    assert run(target, folder, check=False) == 1
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("error: ")
    assert fault in line


def test_read_only_folder_is_refused_in_one_line(folder: Path, capsys: Said) -> None:
    (folder / "taken").write_text("")
    assert run("priced:app", folder / "taken", check=False) == 1
    line = capsys.readouterr().err.splitlines()[0]
    assert "taken" in line
