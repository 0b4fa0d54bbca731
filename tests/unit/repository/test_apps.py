"""The repository of an app: which changed files concern it."""

from pathlib import Path

import pytest

from inferstream.repository.apps import AppRepository

APP = """
from inferstream import App

app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b
"""


@pytest.fixture
def repository(tmp_path: Path) -> AppRepository:
    (tmp_path / "sums.py").write_text(APP)
    return AppRepository("sums:app", tmp_path)


@pytest.mark.parametrize("name", ["sums.py", "prices/tax.py", "settings.json"])
def test_code_and_settings_changes_concern_an_app(
    name: str, repository: AppRepository, tmp_path: Path
) -> None:
    assert repository.concerns(tmp_path / name)


@pytest.mark.parametrize("name", ["server.log", "output.txt", "requests.jsonl"])
def test_server_output_files_do_not_concern_an_app(
    name: str, repository: AppRepository, tmp_path: Path
) -> None:
    assert not repository.concerns(tmp_path / name)
