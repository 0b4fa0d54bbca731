"""The Dockerfile says what orchestrators rely on, and Docker is asked to build it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from dockerfile_parse import DockerfileParser
from typer.testing import CliRunner

from inferstream.cli.main import app
from inferstream.settings import Settings
from inferstream.tools.image import wheel
from inferstream.tools.image.image import CONDA_FILES, dockerfile
from inferstream.tools.image.wheel import NAME as WHEEL
from tests.programs import write_program


def parsed(folder: Path) -> DockerfileParser:
    ran = CliRunner().invoke(app, ["dockerfile", str(folder)])
    assert ran.exit_code == 0, ran.stderr
    return DockerfileParser(str(folder))


def values(parser: DockerfileParser, instruction: str) -> list[str]:
    return [found["value"] for found in parser.structure if found["instruction"] == instruction]


def kept_file(parser: DockerfileParser, name: str) -> dict[str, Any]:
    """The settings that an instruction writes into this file."""
    words = [shlex.split(value) for value in values(parser, "RUN")]
    [text] = [found[2] for found in words if found[:2] == ["printf", "%s"] and found[-1] == name]
    return json.loads(text)


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel has one room of the package: a whole one takes longer than all else here, and has tests of its own."""
    monkeypatch.setattr(wheel, "PACKAGE", wheel.PACKAGE / "types")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "iris"
    folder.mkdir()
    (folder / "model-settings.json").write_text('{"implementation": "model.Model"}')
    return folder


def test_it_runs_unprivileged_at_the_places_orchestrators_know(folder: Path) -> None:
    parser = parsed(folder)
    assert values(parser, "USER") == ["1000"]
    assert values(parser, "COPY")[-1] == "--chown=1000:1000 . ."
    assert f"{WHEEL} /tmp/{WHEEL}" in values(parser, "COPY")
    assert "--uid 1000" in " ".join(values(parser, "RUN"))
    assert parser.is_multistage
    assert {name: value for name, value in parser.envs.items() if name.startswith("MLSERVER_")} == {
        "MLSERVER_PATH": "/opt/mlserver",
        "MLSERVER_MODELS_DIR": "/mnt/models",
        "MLSERVER_ENV_TARBALL": "/mnt/models/environment.tar.gz",
        "MLSERVER_HOST": "0.0.0.0",
        "MLSERVER_MODEL_IMPLEMENTATION": "model.Model",
    }
    assert parser.cmd.endswith('exec server start "$models"')
    instructions = [found["instruction"] for found in parser.structure]
    assert instructions.index("USER") < len(instructions) - 1 - instructions[::-1].index("COPY")


def test_settings_become_defaults_that_variables_replace(folder: Path) -> None:
    (folder / "settings.json").write_text(
        json.dumps({"http_port": 9000, "debug": True, "extensions": ["a b"], "model_repository_root": "/x"})
    )
    settings = {
        "name": 'a "$HOME" \\ name',
        "implementation": "model.Model",
        "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1]}],
        "parameters": {"uri": "./w.bin", "version": "2", "extra": {"a": 1}, "temperature": 0.5},
    }
    (folder / "model-settings.json").write_text(json.dumps(settings))
    parser = parsed(folder)
    found = parser.envs
    assert "MLSERVER_MODEL_REPOSITORY_ROOT" not in found
    assert (found["MLSERVER_HTTP_PORT"], found["MLSERVER_DEBUG"]) == ("9000", "true")
    assert (found["MLSERVER_MODEL_URI"], found["MLSERVER_MODEL_VERSION"]) == ("./w.bin", "2")
    assert json.loads(found["MLSERVER_MODEL_EXTRA"]) == {"a": 1}
    assert json.loads(found["MLSERVER_MODEL_PARAMETERS"]) == {"temperature": 0.5}
    assert json.loads(found["MLSERVER_MODEL_INPUTS"]) == settings["inputs"]
    assert json.loads(found["MLSERVER_EXTENSIONS"]) == ["a b"]
    assert 'ENV MLSERVER_MODEL_NAME="a \\"\\$HOME\\" \\\\ name"\n' in dockerfile(folder)
    assert values(parser, "RUN")[-1] == "rm -f settings.json model-settings.json"


def test_one_of_several_models_fills_no_other_one_s_gaps(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "model-settings.json").write_text('{"implementation": "model.Other"}')
    assert not [name for name in parsed(folder).envs if name.startswith("MLSERVER_MODEL_")]


def test_requirements_are_installed(folder: Path) -> None:
    assert "requirements.txt" not in dockerfile(folder)
    (folder / "requirements.txt").write_text("scikit-learn")
    parser = parsed(folder)
    assert "requirements.txt /tmp/requirements.txt" in values(parser, "COPY")
    assert any("-r /tmp/requirements.txt" in ran for ran in values(parser, "RUN"))
    assert all(image.startswith("python:3.") for image in parser.parent_images)


@pytest.mark.parametrize("name", CONDA_FILES)
def test_a_conda_environment_is_made(folder: Path, name: str) -> None:
    (folder / name).write_text("name: x\n")
    (folder / "requirements.txt").write_text("scikit-learn")
    parser = parsed(folder)
    assert parser.parent_images[0] == "condaforge/miniforge3"
    assert f"conda env create --prefix /opt/mlserver/envs/base --file /tmp/{name}" in values(parser, "RUN")
    assert "--from=build /opt/mlserver/envs /opt/mlserver/envs" in values(parser, "COPY")


def test_the_ignore_file_comes_when_asked(folder: Path) -> None:
    parsed(folder)
    assert not (folder / ".dockerignore").exists()
    assert CliRunner().invoke(app, ["dockerfile", "-i", str(folder)]).exit_code == 0
    assert ".git" in (folder / ".dockerignore").read_text().splitlines()


def test_a_file_of_the_user_s_is_replaced_by_force_only(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\n")
    ran = CliRunner().invoke(app, ["dockerfile", str(folder)])
    assert (ran.exit_code, "--force" in ran.stderr) == (1, True)
    assert (folder / "Dockerfile").read_text() == "FROM scratch\n"
    assert CliRunner().invoke(app, ["dockerfile", "--force", str(folder)]).exit_code == 0
    assert CliRunner().invoke(app, ["dockerfile", str(folder)]).exit_code == 0, "ours may be written anew"


def test_broken_settings_are_one_line(folder: Path) -> None:
    (folder / "settings.json").write_text("{")
    ran = CliRunner().invoke(app, ["dockerfile", str(folder)])
    assert ran.exit_code == 1
    assert "line 1 column 2" in ran.stderr
    assert not (folder / "Dockerfile").exists()


@pytest.mark.parametrize("file", ["settings.json", "model-settings.json"])
@pytest.mark.parametrize(
    "key", ["a\nRUN evil\nENV b", "a\rRUN evil", "a=1 LD_PRELOAD", "$HOME", "a\u2028RUN evil", "_a"]
)
def test_a_key_that_is_no_variable_writes_nothing(folder: Path, file: str, key: str) -> None:
    expected = dockerfile(folder)
    path = folder / file
    values = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**values, key: "x"}))
    assert dockerfile(folder) == expected


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\u2028", "\x0b"])
def test_a_value_of_several_lines_stays_in_the_file_of_the_image(folder: Path, line_break: str) -> None:
    settings = {"name": f"a{line_break}RUN evil", "implementation": "model.Model"}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    parser = parsed(folder)
    assert "MLSERVER_MODEL_NAME" not in parser.envs
    assert kept_file(parser, "model-settings.json") == {"name": settings["name"]}
    assert not [line for line in dockerfile(folder).splitlines() if line.startswith("RUN evil")]


@pytest.mark.parametrize("name", ["a\nRUN evil", "a\rRUN evil", "a\u2028RUN evil"])
def test_a_folder_whose_name_has_a_line_break_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "model-settings.json").write_text('{"implementation": "model.Model"}')
    ran = CliRunner().invoke(app, ["dockerfile", str(folder)])
    assert (ran.exit_code, ran.stderr) == (
        1,
        f"error: the name of the folder {name!r} has a character that cannot be printed\n",
    )
    assert not (folder / "Dockerfile").exists()


DOCKER = """#!/bin/sh
[ "$1" = version ] && exit {version}
for word in "$@"; do echo "$word"; done > {record}/arguments
for word in "$@"; do folder="$word"; done
ls "$folder" > {record}/context
echo "$DOCKER_BUILDKIT" > {record}/buildkit
while [ "$1" != --file ]; do shift; done
cp "$2" {record}/Dockerfile
cp "$2.dockerignore" {record}/ignored || true
exit {code}
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()

    def fake(version: int = 0, code: int = 0) -> Path:
        program = tmp_path / "bin" / "docker"
        write_program(program, DOCKER.format(version=version, code=code, record=tmp_path))
        return tmp_path

    return fake


def test_build_runs_docker_with_buildkit(folder: Path, docker) -> None:
    record = docker()
    ran = CliRunner().invoke(app, ["build", str(folder), "-t", "iris:1", "--no-cache"])
    assert ran.exit_code == 0, ran.stderr
    first, *rest = (record / "arguments").read_text().split()
    assert (first, rest[-1]) == ("build", str(folder))
    assert {"--no-cache", "--rm", "iris:1"} < set(rest)
    assert rest[rest.index("--tag") + 1] == "iris:1"
    assert (record / "buildkit").read_text() == "1\n"
    assert (record / "Dockerfile").read_text() == dockerfile(folder)
    assert ".git" in (record / "ignored").read_text()
    assert (record / "context").read_text().split() == [WHEEL, "model-settings.json"]
    assert [path.name for path in folder.iterdir()] == ["model-settings.json"], "nothing stays behind"


def test_build_takes_the_edited_dockerfile_and_leaves_a_foreign_one(folder: Path, docker) -> None:
    record = docker()
    edited = dockerfile(folder) + "LABEL mine=1\n"
    for own, used in ((edited, edited), ("FROM scratch\n", dockerfile(folder))):
        (folder / "Dockerfile").write_text(own)
        assert CliRunner().invoke(app, ["build", str(folder), "--tag", "x"]).exit_code == 0
        assert (record / "Dockerfile").read_text() == used
        assert "--no-cache" not in (record / "arguments").read_text()


def test_a_build_leaves_the_wheel_that_was_there(folder: Path, docker) -> None:
    docker()
    parsed(folder)
    before = (folder / WHEEL).read_bytes()
    assert CliRunner().invoke(app, ["build", str(folder), "--tag", "x"]).exit_code == 0
    assert (folder / WHEEL).read_bytes() == before


def test_a_failed_build_fails(folder: Path, docker) -> None:
    docker(code=17)
    assert CliRunner().invoke(app, ["build", str(folder), "-t", "x"]).exit_code == 17


def test_no_engine_is_one_line(folder: Path, docker) -> None:
    ran = CliRunner().invoke(app, ["build", str(folder), "-t", "x"])
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: there is no `docker`")
    docker(version=1)
    ran = CliRunner().invoke(app, ["build", str(folder), "-t", "x"])
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: docker is there")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "value", "variable"),
    [
        ("_custom_rest_server_settings", {"ssl_certfile": "c"}, "MLSERVER_CUSTOM_REST_SERVER_SETTINGS"),
        ("_custom_grpc_server_settings", {"ssl_certfile": "c"}, "MLSERVER_CUSTOM_GRPC_SERVER_SETTINGS"),
        ("_custom_metrics_server_settings", {"backlog": 5}, "MLSERVER_CUSTOM_METRICS_SERVER_SETTINGS"),
        ("cors_settings", {"allow_origins": ["https://a.example"]}, "MLSERVER_CORS_SETTINGS"),
        ("debug", False, "MLSERVER_DEBUG"),
    ],
)
def test_each_setting_is_a_variable_that_the_server_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: Any, variable: str
) -> None:
    (folder / "settings.json").write_text(json.dumps({setting: value}))
    monkeypatch.setenv(variable, parsed(folder).envs[variable])
    assert Settings().dict()[setting] == value


def test_a_null_stays_in_the_file_of_the_image(folder: Path) -> None:
    (folder / "settings.json").write_text('{"grpc_port": null, "debug": true}')
    parser = parsed(folder)
    assert parser.envs["MLSERVER_DEBUG"] == "true"
    assert kept_file(parser, "settings.json") == {"grpc_port": None}


def test_the_health_check_follows_tls(folder: Path) -> None:
    assert "'http://127.0.0.1:'" in dockerfile(folder)
    settings = {"_custom_rest_server_settings": {"ssl_certfile": "tls.crt"}}
    (folder / "settings.json").write_text(json.dumps(settings))
    assert "'https://127.0.0.1:'" in dockerfile(folder)
