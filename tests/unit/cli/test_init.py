"""`server init` writes a template, and replaces nothing."""

from pathlib import Path

import pytest

from inferstream.cli.init import run, templates

Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("template", templates())
def test_printed_commands_use_the_created_folder(template: str, tmp_path: Path, capsys: Said) -> None:
    folder = tmp_path / "my model"
    assert run(folder, template) == 0
    said = capsys.readouterr()
    assert said.err.startswith("wrote README.md, ")
    assert f"to {folder}" in said.err
    assert f"'{folder}" in said.out, "a path with a space is one word of a shell"
    assert "{{" not in said.out + (folder / "README.md").read_text()
    assert (folder / "README.md").read_text().startswith("# my model\n")


def test_unknown_template_is_refused_with_available_ones(tmp_path: Path, capsys: Said) -> None:
    assert run(tmp_path / "m", "prdict") == 1
    assert capsys.readouterr().err == (
        f'error: there is no template "prdict"; there are: {", ".join(templates())}\n'
    )
    assert not (tmp_path / "m").exists()


def test_existing_file_is_kept_and_nothing_is_written(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "model.py").write_text("mine")
    assert run(tmp_path, "predict") == 1
    assert f"{tmp_path} has model.py already; nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]
    assert (tmp_path / "model.py").read_text() == "mine"


def test_folder_with_invalid_model_name_is_refused(tmp_path: Path, capsys: Said) -> None:
    assert run(tmp_path / "a\nb", "predict") == 1
    assert "not a usable model name" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
