"""The Dockerfile says what orchestrators rely on, and Docker is asked to build it."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from dockerfile_parse import DockerfileParser
from typer.testing import CliRunner

from inferstream import Settings
from inferstream.ext.hosting import command_line as app
from inferstream.plugins.tools.image import wheel
from inferstream.plugins.tools.image.image import CONDA_FILES, generate_dockerfile
from inferstream.plugins.tools.image.wheel import NAME as WHEEL
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


def test_image_runs_unprivileged_with_standard_paths(folder: Path) -> None:
    parser = parsed(folder)
    assert values(parser, "USER") == ["1000"]
    assert values(parser, "COPY")[-1] == "--chown=1000:0 . ."
    assert f"{WHEEL} /tmp/{WHEEL}" in values(parser, "COPY")
    assert "--uid 1000 --gid 0" in " ".join(values(parser, "RUN"))
    assert parser.is_multistage
    assert {name: value for name, value in parser.envs.items() if name.startswith("MLSERVER_")} == {
        "MLSERVER_PATH": "/opt/mlserver",
        "MLSERVER_MODELS_DIR": "/mnt/models",
        "MLSERVER_ENV_TARBALL": "/mnt/models/environment.tar.gz",
        "MLSERVER_HOST": "0.0.0.0",
        "MLSERVER_ALLOW_OPEN_REPOSITORY": "false",
        "MLSERVER_MODEL_IMPLEMENTATION": "model.Model",
    }
    assert parser.cmd.endswith('exec server start "$models"')
    instructions = [found["instruction"] for found in parser.structure]
    assert instructions.index("USER") < len(instructions) - 1 - instructions[::-1].index("COPY")


def test_settings_become_overridable_environment_defaults(folder: Path) -> None:
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
    assert 'ENV MLSERVER_MODEL_NAME="a \\"\\$HOME\\" \\\\ name"\n' in generate_dockerfile(folder)
    assert values(parser, "RUN")[-1] == "rm -f settings.json model-settings.json"


def test_image_has_programs_of_probes_and_list_of_packages(folder: Path) -> None:
    parser = parsed(folder)
    ran = " ".join(values(parser, "RUN"))
    assert "apt-get install --yes --no-install-recommends curl libgomp1" in ran
    assert "[tracing]" in values(parser, "ARG")[0]
    assert parser.envs["HOME"] == "/opt/mlserver"
    assert "chown 1000:0 /opt/mlserver" in ran
    assert f"--output-file {parser.labels['inferstream.sbom']}" in ran


@pytest.mark.parametrize(
    ("command", "settings", "is_open"),
    [
        ("server", {}, "false"),
        ("server", {"allow_open_repository": "local"}, "local"),
        ("mlserver", {}, None),
        ("mlserver", {"allow_open_repository": False}, "false"),
    ],
)
def test_command_name_decides_who_loads_models(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    settings: dict[str, Any],
    is_open: str | None,
) -> None:
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{command}", "dockerfile"])
    (folder / "settings.json").write_text(json.dumps(settings))
    assert parsed(folder).envs.get("MLSERVER_ALLOW_OPEN_REPOSITORY") == is_open


@pytest.mark.parametrize("uri", ["hf://a/b", "s3://a/b", "gs://a/b", "az://a/b"])
def test_model_uri_needs_extra(folder: Path, uri: str) -> None:
    settings = {"implementation": "model.Model", "parameters": {"uri": uri}}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    extra = "hub" if uri.startswith("hf") else "objects"
    assert f".whl[{extra},tracing]" in generate_dockerfile(folder)


def install_plugin(site: Path, name: str) -> None:
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[inferstream.extensions]\nx = x:extension\n")


@pytest.mark.parametrize(
    ("file", "text", "is_listed"),
    [
        (None, "", False),
        ("requirements.txt", "numpy\n# loud-shout\nloud-shouting\nvery-loud-shout\n", False),
        ("requirements.txt", "Loud_Shout[all]>=1 ; python_version > '3'", True),
        ("requirements.txt", "./wheels/loud_shout-1.0-py3-none-any.whl", True),
        ("requirements.txt", "git+https://example.org/loud-shout@main", True),
        ("conda.yml", "dependencies:\n  - pip:\n    - loud.shout==1.0\n", True),
    ],
)
def test_plugins_that_image_lacks_are_named(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str | None,
    text: str,
    is_listed: bool,
) -> None:
    install_plugin(tmp_path / "site", "loud-shout")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    if file:
        (folder / file).write_text(text)
    ran = CliRunner().invoke(app, ["dockerfile", str(folder)])
    assert ran.exit_code == 0, ran.stderr
    assert ("plug-in loud-shout is not in the image" in ran.stderr) is not is_listed


def test_models_do_not_inherit_settings_of_each_other(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "model-settings.json").write_text('{"implementation": "model.Other"}')
    assert not [name for name in parsed(folder).envs if name.startswith("MLSERVER_MODEL_")]


def test_requirements_are_installed(folder: Path) -> None:
    assert "requirements.txt" not in generate_dockerfile(folder)
    (folder / "requirements.txt").write_text("scikit-learn")
    parser = parsed(folder)
    assert "requirements.txt /tmp/requirements.txt" in values(parser, "COPY")
    assert any("-r /tmp/requirements.txt" in ran for ran in values(parser, "RUN"))
    assert all(image.startswith("python:3.") for image in parser.parent_images)


@pytest.mark.parametrize("name", CONDA_FILES)
def test_conda_environment_is_created(folder: Path, name: str) -> None:
    (folder / name).write_text("name: x\n")
    (folder / "requirements.txt").write_text("scikit-learn")
    parser = parsed(folder)
    assert parser.parent_images[0] == "condaforge/miniforge3"
    assert f"conda env create --prefix /opt/mlserver/envs/base --file /tmp/{name}" in values(parser, "RUN")
    assert "--from=build /opt/mlserver/envs /opt/mlserver/envs" in values(parser, "COPY")


def test_ignore_file_is_written_on_request(folder: Path) -> None:
    parsed(folder)
    assert not (folder / ".dockerignore").exists()
    assert CliRunner().invoke(app, ["dockerfile", "-i", str(folder)]).exit_code == 0
    assert ".git" in (folder / ".dockerignore").read_text().splitlines()


def test_user_file_is_replaced_only_with_force(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\n")
    ran = CliRunner().invoke(app, ["dockerfile", str(folder)])
    assert (ran.exit_code, "--force" in ran.stderr) == (1, True)
    assert (folder / "Dockerfile").read_text() == "FROM scratch\n"
    assert CliRunner().invoke(app, ["dockerfile", "--force", str(folder)]).exit_code == 0
    assert CliRunner().invoke(app, ["dockerfile", str(folder)]).exit_code == 0, "a generated file is replaced"


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
def test_key_that_is_no_variable_name_is_ignored(folder: Path, file: str, key: str) -> None:
    expected = generate_dockerfile(folder)
    path = folder / file
    values = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**values, key: "x"}))
    assert generate_dockerfile(folder) == expected


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\u2028", "\x0b"])
def test_multiline_value_stays_in_image_settings_file(folder: Path, line_break: str) -> None:
    settings = {"name": f"a{line_break}RUN evil", "implementation": "model.Model"}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    parser = parsed(folder)
    assert "MLSERVER_MODEL_NAME" not in parser.envs
    assert kept_file(parser, "model-settings.json") == {"name": settings["name"]}
    assert not [line for line in generate_dockerfile(folder).splitlines() if line.startswith("RUN evil")]


@pytest.mark.parametrize("name", ["a\nRUN evil", "a\rRUN evil", "a\u2028RUN evil"])
def test_folder_name_with_line_break_is_refused(tmp_path: Path, name: str) -> None:
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
echo "$0 $BUILDAH_FORMAT" > {record}/builder
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
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    (tmp_path / "bin").mkdir()
    for name in ("ls", "cp", "cat", "chmod"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name, path="/usr/bin:/bin")))

    def fake(version: int = 0, code: int = 0, name: str = "docker") -> Path:
        program = tmp_path / "bin" / name
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
    assert (record / "Dockerfile").read_text() == generate_dockerfile(folder)
    assert ".git" in (record / "ignored").read_text()
    assert (record / "context").read_text().split() == [WHEEL, "model-settings.json"]
    assert [path.name for path in folder.iterdir()] == ["model-settings.json"], "nothing stays behind"


def test_build_uses_edited_dockerfile_and_keeps_foreign_one(folder: Path, docker) -> None:
    record = docker()
    edited = generate_dockerfile(folder) + "LABEL mine=1\n"
    for own, used in ((edited, edited), ("FROM scratch\n", generate_dockerfile(folder))):
        (folder / "Dockerfile").write_text(own)
        assert CliRunner().invoke(app, ["build", str(folder), "--tag", "x"]).exit_code == 0
        assert (record / "Dockerfile").read_text() == used
        assert "--no-cache" not in (record / "arguments").read_text()


def test_build_keeps_existing_wheel(folder: Path, docker) -> None:
    docker()
    parsed(folder)
    before = (folder / WHEEL).read_bytes()
    assert CliRunner().invoke(app, ["build", str(folder), "--tag", "x"]).exit_code == 0
    assert (folder / WHEEL).read_bytes() == before


def test_failed_build_is_reported(folder: Path, docker) -> None:
    docker(code=17)
    assert CliRunner().invoke(app, ["build", str(folder), "-t", "x"]).exit_code == 17


@pytest.mark.parametrize("name", ["podman", "buildah"])
def test_build_falls_back_to_other_builders(folder: Path, docker, name: str) -> None:
    docker(version=1)
    record = docker(name=name)
    assert CliRunner().invoke(app, ["build", str(folder), "-t", "x"]).exit_code == 0
    assert (record / "builder").read_text() == f"{record}/bin/{name} docker\n"
    arguments = (record / "arguments").read_text().split()
    assert arguments[arguments.index("--ignorefile") + 1].endswith("/Dockerfile.dockerignore")


def test_missing_engine_is_one_line(folder: Path, docker) -> None:
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
def test_each_setting_is_a_known_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: Any, variable: str
) -> None:
    (folder / "settings.json").write_text(json.dumps({setting: value}))
    monkeypatch.setenv(variable, parsed(folder).envs[variable])
    assert Settings().dict()[setting] == value


def test_null_stays_in_image_settings_file(folder: Path) -> None:
    (folder / "settings.json").write_text('{"grpc_port": null, "debug": true}')
    parser = parsed(folder)
    assert parser.envs["MLSERVER_DEBUG"] == "true"
    assert kept_file(parser, "settings.json") == {"grpc_port": None}


TLS = {"_custom_rest_server_settings": {"ssl_certfile": "tls.crt"}}


@pytest.mark.parametrize(
    ("settings", "variables", "url"),
    [
        ({}, {}, "http://127.0.0.1:8080"),
        ({}, {"MLSERVER_HTTP_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"http_port": 9000}, {"INFERSTREAM_HTTP_PORT": "9001"}, "http://127.0.0.1:9001"),
        (TLS, {}, "https://127.0.0.1:8080"),
        ({}, {"INFERSTREAM_CUSTOM_REST_SERVER_SETTINGS": '{"ssl_certfile": "c"}'}, "https://127.0.0.1:8080"),
        ({}, {"MLSERVER_CUSTOM_REST_SERVER_SETTINGS": '{"ssl_certfile": "c"}'}, "https://127.0.0.1:8080"),
    ],
)
def test_health_check_follows_port_and_tls(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    variables: dict[str, str],
    url: str,
) -> None:
    (folder / "settings.json").write_text(json.dumps(settings))
    parser = parsed(folder)
    for name, value in {**parser.envs, **variables}.items():
        if name.startswith(("MLSERVER_", "INFERSTREAM_")):
            monkeypatch.setenv(name, value)
    opened: list[str] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda url, context: opened.append(url))
    [check] = values(parser, "HEALTHCHECK")
    exec(shlex.split(check)[-1], {})
    assert opened == [f"{url}/v2/health/ready"]


def write_runtime(folder: Path) -> None:
    (folder / "own.py").write_text("class Mine: ...")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "own.py").touch()
    (folder / "data").mkdir()


def test_image_with_allowed_runtimes_trusts_no_others(folder: Path) -> None:
    write_runtime(folder)
    flags = [
        "--allow-runtime",
        "own.Mine",
        "--allow-runtime",
        "package.a.B",
        "--allow-runtime",
        "installed.C",
    ]
    flags += ["--runtime-path", "own.py", "--runtime-path", "package"]
    ran = CliRunner().invoke(app, ["dockerfile", str(folder), *flags])
    assert ran.exit_code == 0, ran.stderr
    parser = DockerfileParser(str(folder))
    command = next(value for value in values(parser, "RUN") if "trusted-runtimes.json" in value)
    words = shlex.split(command)
    assert (words[-2:], words[2]) == ([">", "/etc/mlserver/trusted-runtimes.json"], "/etc/mlserver")
    listed = json.loads(words[words.index("%s") + 1])
    assert {"own.Mine", "package.a.B", "installed.C"} < {*listed}
    assert any(name.endswith(".SKLearnModel") for name in listed)
    assert "own.py /opt/runtimes/own.py" in values(parser, "COPY")
    assert "package /opt/runtimes/package" in values(parser, "COPY")
    assert parser.envs["PYTHONPATH"] == "/opt/runtimes"  # without the folder of the models
    steps = [(each["instruction"], each["value"]) for each in parser.structure]
    assert steps.index(("RUN", command)) < steps.index(("USER", "1000")), "the server cannot change its list"


def test_development_image_trusts_every_class(folder: Path) -> None:
    plain = generate_dockerfile(folder)
    assert "trusted-runtimes" not in plain
    assert CliRunner().invoke(app, ["dockerfile", str(folder), "--dev"]).exit_code == 0
    assert (folder / "Dockerfile").read_text() == plain


def test_image_without_dev_trusts_built_in_runtimes(folder: Path) -> None:
    assert CliRunner().invoke(app, ["dockerfile", str(folder), "--no-dev"]).exit_code == 0
    text = (folder / "Dockerfile").read_text()
    [line] = [line for line in text.splitlines() if "trusted-runtimes.json" in line]
    names = json.loads(shlex.split(line)[shlex.split(line).index("%s") + 1])
    assert any(name.endswith(".SKLearnModel") for name in names)
    assert "ENV PYTHONPATH=/opt/runtimes" in text


@pytest.mark.parametrize(
    ("command", "flags", "is_told"),
    [("server", [], False), ("mlserver", [], True), ("mlserver", ["--no-dev"], False)],
)
def test_mlserver_command_names_missing_protection(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, flags: list[str], is_told: bool
) -> None:
    """The `mlserver build` of Open Data Hub trusts only the built-in runtimes by default."""
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{command}", "dockerfile"])
    ran = CliRunner().invoke(app, ["dockerfile", str(folder), *flags])
    assert ("the image trusts every class; --no-dev" in ran.stderr) is is_told


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--runtime-path", "own.py"], "--runtime-path needs --allow-runtime"),
        (["--allow-runtime", "own"], "'own' is not the import path of a class"),
        (["--allow-runtime", "own.mine"], "'own.mine' is not the import path of a class"),
        (["--allow-runtime", "own.Mine", "--runtime-path", "../own.py"], "write a path in the folder"),
        (
            ["--allow-runtime", "own.Mine", "--runtime-path", "package/../own.py"],
            "write a path in the folder",
        ),
        (["--allow-runtime", "own.Mine", "--runtime-path", "/own.py"], "write a path in the folder"),
        (["--allow-runtime", "own.Mine", "--runtime-path", "own.py\nRUN x"], "write a path in the folder"),
        (["--allow-runtime", "own.Mine", "--runtime-path", "o*.py"], "write a path in the folder"),
        (["--allow-runtime", "own.Mine", "--runtime-path", "none.py"], "there is no module or package"),
        (["--allow-runtime", "own.Mine", "--runtime-path", "data"], "there is no module or package"),
        (["--allow-runtime", "own.Mine", "--runtime-path", "package"], "no --allow-runtime names a class"),
        (
            ["--allow-runtime", "own.Mine", "--runtime-path", "own.py", "--runtime-path", "package/own.py"],
            "another --runtime-path has a module of this name",
        ),
        (["--dev", "--allow-runtime", "own.Mine"], "--dev trusts every class"),
    ],
)
def test_runtimes_that_an_image_cannot_have_are_refused(folder: Path, flags: list[str], reason: str) -> None:
    write_runtime(folder)
    ran = CliRunner().invoke(app, ["dockerfile", str(folder), *flags])
    assert ran.exit_code != 0
    assert reason in " ".join(ran.stderr.replace("│", " ").split())
    assert not (folder / "Dockerfile").exists()
