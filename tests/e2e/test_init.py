"""What `server init` writes starts at once, and answers the call it tells of."""

import json
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest

from inferstream.cli.init import templates
from tests.serving import SERVER, Running


def init(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SERVER, "init", str(folder), *flags], capture_output=True, text=True, timeout=60, check=False
    )


def test_templates_match_tested_templates() -> None:
    assert templates() == ["app", "llm", "predict", "sklearn", "steps", "stream"]


@pytest.mark.parametrize(
    ("template", "answers"),
    [
        ("app", ['"one "', '"three "']),
        ("predict", ["[2.0,5.0]"]),
        ("sklearn", ["[0,2]"]),
        ("steps", ['"number":1,', '"number":3,']),
        ("stream", ['"What "', '"capital? "']),
    ],
)
def test_template_starts_and_serves_as_documented(tmp_path: Path, template: str, answers: list[str]) -> None:
    folder = tmp_path / "my model"
    ran = init(folder, "--template", template)
    assert ran.returncode == 0, ran.stderr
    *_, start, call = (shlex.split(line) for line in ran.stdout.splitlines())
    assert start == ["server", "start", str(folder)]
    assert ran.stdout.strip() in (folder / "README.md").read_text()
    running = Running(folder, "--strict")
    try:
        url = next(word for word in call if word.startswith("http://"))
        body = call[call.index("-d") + 1]
        answer = httpx.post(url.replace("http://127.0.0.1:8080", running.url), content=body, timeout=20)
    finally:
        assert running.stop() == 0, running.text()
    assert answer.status_code == 200, answer.text
    for expected in answers:
        assert expected in answer.text
    checked = subprocess.run(
        [*SERVER, "models", str(folder), "--json"], capture_output=True, text=True, check=False
    )
    assert json.loads(checked.stdout)["ok"]


def test_existing_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("mine")
    ran = init(tmp_path)
    assert ran.returncode == 1
    assert "has model.py already" in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]
    assert (tmp_path / "model.py").read_text() == "mine"


@pytest.mark.parametrize("flags", [["-t", "https://example.org/x.git"], ["-t", ".."], ["-t", ""]])
def test_unknown_template_lists_known_ones(tmp_path: Path, flags: list[str]) -> None:
    ran = init(tmp_path / "m", *flags)
    assert ran.returncode == 1
    assert "llm, predict, sklearn, steps, stream" in ran.stderr
    assert not (tmp_path / "m").exists()
