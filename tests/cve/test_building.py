"""Settings that become instructions or commands when an image is built."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser
from typer.testing import CliRunner

from inferstream.cli.main import app
from inferstream.plugins.tools.image.image import generate_dockerfile
from inferstream.settings import ModelParameters, ModelSettings, Settings
from tests.programs import write_program

CVES = ("CVE-2026-33744", "CVE-2026-44345")

INJECTIONS = (
    "x\nRUN touch /evil",
    "x\r\nUSER root",
    "x; touch /evil",
    "`touch /evil`",
    "$(touch /evil)",
    "${PATH}",
    '" && touch /evil && "',
    "' ; touch /evil ; '",
    "x \\\nRUN touch /evil",
    "x\\",
    "# escape=`\nRUN touch /evil",
    "x\u2028RUN touch /evil",
    "--privileged",
    "x <<EOF\nRUN touch /evil\nEOF",
)


def instructions(text: str, folder: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile as builders read them, without the values of variables."""
    parser = DockerfileParser(path=str(folder))
    parser.content = text
    return [
        (
            each["instruction"],
            each["value"] if each["instruction"] != "ENV" else each["value"].partition("=")[0],
        )
        for each in parser.structure
    ]


@pytest.mark.parametrize("injection", INJECTIONS)
def test_settings_file_values_are_not_dockerfile_instructions(tmp_path: Path, injection: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "parsed").mkdir()
    server = dict.fromkeys(Settings.model_fields, "x")
    model = {name: "x" for name in ModelSettings.model_fields if name != "parameters"}
    parameters = dict.fromkeys(ModelParameters.model_fields, "x")

    def written(value: str) -> list[tuple[str, str]]:
        (folder / "settings.json").write_text(json.dumps(dict.fromkeys(server, value)))
        more = {**dict.fromkeys(parameters, value), "other": value}
        (folder / "model-settings.json").write_text(
            json.dumps({**dict.fromkeys(model, value), "parameters": more})
        )
        return instructions(generate_dockerfile(folder), tmp_path / "parsed")

    plain = written("x")
    assert ("ENV", "MLSERVER_MODEL_NAME") in plain
    assert len(plain) > 40
    injected = written(injection)
    assert {kind for kind, _ in injected} == {kind for kind, _ in plain}
    for kind, value in set(injected) - set(plain):  # a value of several lines stays in a settings file
        program, form, _, *target = shlex.split(value)
        assert (kind, program, form) == ("RUN", "printf", "%s")
        assert target in ([">", "settings.json"], [">", "model-settings.json"])


NAMES = ("x; touch evil", "$(touch evil)", "`touch evil`", "${PATH}", "x\\", "'; touch evil; '", '"x"', "--x")


@pytest.mark.parametrize("name", NAMES)
def test_folder_names_are_not_shell_commands(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "model-settings.json").write_text('{"implementation": "model.Model"}')
    (tmp_path / "parsed").mkdir()
    *_, (instruction, command) = instructions(generate_dockerfile(folder), tmp_path / "parsed")
    assert instruction == "CMD"
    named = command.partition('models="$MLSERVER_PATH"; ')[2].partition("; export")[0]
    shell = ["sh", "-c", f'{named}; printf %s "$name"']
    ran = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == name
    assert not (tmp_path / "evil").exists()


TOLD = '#!/bin/sh\nfor word in "$@"; do echo "$word"; done >> {record}\n'


@pytest.mark.parametrize("injection", INJECTIONS)
def test_tag_is_a_single_docker_argument(
    tmp_path: Path, injection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, record, program = tmp_path / "model", tmp_path / "record", tmp_path / "bin" / "docker"
    folder.mkdir()
    program.parent.mkdir()
    (folder / "model-settings.json").write_text('{"implementation": "model.Model"}')
    write_program(program, TOLD.format(record=record))
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    ran = CliRunner().invoke(app, ["build", str(folder), f"--tag={injection}"])
    assert ran.exit_code == 0, ran.output
    assert f"--tag\n{injection}\n" in record.read_bytes().decode()
    assert not Path("/evil").exists()
