"""`server alias mlserver` gives Dockerfiles and scripts of MLServer their command."""

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests import serving

MODEL = """
from mlserver import MLModel
from mlserver.codecs import decode_args

class Doubling(MLModel):
    @decode_args
    async def predict(self, text: list[str]) -> list[str]:
        return [each * 2 for each in text]
"""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A copy of the installed command, in a folder of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return Path(shutil.copy2(Path(sysconfig.get_path("scripts"), "server"), folder))


def alias(command: list[str], name: str = "mlserver", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "alias", name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )


def test_command_serves_folder_like_mlserver_image(
    tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # a second time changes nothing
        ran = alias([str(server)])
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == f"{server.with_name('mlserver')} is the command server\n"
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "models.py").write_text(MODEL)
    settings = {"name": "doubling", "implementation": "models.Doubling"}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    monkeypatch.setattr(serving, "SERVER", [str(server.with_name("mlserver"))])
    running = serving.Running(folder / "working-folder-is-above", target=".")
    try:
        answer = running.infer("doubling", serving.text("ab"))
    finally:
        assert running.stop() == 0, running.text()
    assert answer.json()["outputs"][0]["data"] == ["abab"], answer.text


def test_installed_mlserver_keeps_its_command(tmp_path: Path, server: Path) -> None:
    (tmp_path / "mlserver").mkdir()
    (tmp_path / "mlserver" / "__init__.py").touch()
    ran = alias([str(server)], PYTHONPATH=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (1, "error: mlserver is installed, and its command is its own\n")
    assert not server.with_name("mlserver").exists()


def test_other_command_of_same_name_is_not_replaced(server: Path) -> None:
    other = server.with_name("mlserver")
    other.write_text("mine")
    ran = alias([str(server)])
    assert (ran.returncode, ran.stderr) == (
        1,
        f"error: {other} is another command already; nothing was written\n",
    )
    assert other.read_text() == "mine"


def test_impossible_names_and_commands_are_refused(server: Path) -> None:
    ran = alias([str(server)], "ls")
    assert (ran.returncode, ran.stderr) == (
        1,
        'error: "ls" is no name for this command; it may be called: mlserver\n',
    )
    assert not server.with_name("ls").exists()
    ran = alias(serving.SERVER)
    assert ran.returncode == 1
    assert ran.stderr.endswith("cannot be copied; call it as `server alias mlserver`\n")
