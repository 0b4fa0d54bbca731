"""`server init` writes a template, and replaces nothing."""

from pathlib import Path

import pytest

from inferstream.cli.init import run, templates

Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("template", templates())
def test_the_commands_that_are_said_are_those_of_the_folder(
    template: str, tmp_path: Path, capsys: Said
) -> None:
    folder = tmp_path / "my model"
    assert run(folder, template) == 0
    said = capsys.readouterr()
    assert said.err.startswith("wrote README.md, ")
    assert f"to {folder}" in said.err
    assert f"'{folder}" in said.out, "a path with a space is one word of a shell"
    assert "{{" not in said.out + (folder / "README.md").read_text()
    assert (folder / "README.md").read_text().startswith("# my model\n")


def test_a_template_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, capsys: Said) -> None:
    assert run(tmp_path / "m", "prdict") == 1
    assert capsys.readouterr().err == (
        f'error: there is no template "prdict"; there are: {", ".join(templates())}\n'
    )
    assert not (tmp_path / "m").exists()


def test_a_file_that_is_there_stays_and_nothing_is_written(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "model.py").write_text("mine")
    assert run(tmp_path, "predict") == 1
    assert f"{tmp_path} has model.py already; nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]
    assert (tmp_path / "model.py").read_text() == "mine"


def test_a_folder_whose_name_no_model_may_have_is_refused(tmp_path: Path, capsys: Said) -> None:
    assert run(tmp_path / "a\nb", "predict") == 1
    assert "not a usable model name" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
