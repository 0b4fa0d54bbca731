"""The Dockerfile of a model folder."""

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from inferstream import ModelParameters, Settings
from inferstream.ext.hosting import find_target
from inferstream.ext.settings import MLSERVER_MODEL_PREFIX, read_json

from ...errors import InvalidSettings
from .secrets import SETTINGS_FILE
from .wheel import NAME as WHEEL

MODEL_SETTINGS_FILE = "model-settings.json"

MLSERVER_PREFIX = "MLSERVER_"
"""Begins MLServer's variables of a server, which orchestrators set."""

DISTRIBUTION = "inferstream"

Models = Mapping[str, Mapping[str, Any]]
"""The settings of the models in a folder, by the path of their file; an artefact without settings has an empty path."""

HEADER = "# Written by `server dockerfile`; it may be written anew as long as this line stands here."

HOME = "/opt/mlserver"
"""MLServer's name for the folder. Orchestrators and other Dockerfiles use it."""

CONDA_FILES = ("environment.yml", "environment.yaml", "conda.yml", "conda.yaml")
REQUIREMENTS = "requirements.txt"

IGNORED = """\
# Written by `server dockerfile`.
.git
.venv
.env
.envs
.metrics
**/__pycache__
**/*.py[cod]
**/*.egg-info
**/.DS_Store
**/.ipynb_checkpoints
**/.mypy_cache
**/.pytest_cache
**/.ruff_cache
**/*.log
Dockerfile
.dockerignore
"""

EXTRAS = {"kafka_enabled": "kafka", "state_key_file": "state", "tracing_server": "tracing"}
"""Extras by the server's settings that need them. The extra of a runtime has the name of its module."""

VARIABLES = {
    "PATH": f"{HOME}/envs/base/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": HOME,
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MLSERVER_PATH": HOME,
    "MLSERVER_MODELS_DIR": "/mnt/models",
    "MLSERVER_ENV_TARBALL": "/mnt/models/environment.tar.gz",
    "MLSERVER_HOST": "0.0.0.0",
}

VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""Keys that can be variables. No setting has another one, and it could hold an instruction of its own."""

PRIVATE = {field.alias: name for name, field in Settings.model_fields.items() if field.alias}
"""Settings whose names in a file begin with an underscore, which those of their variables do not."""

HEALTH = (
    'python -c "import os, urllib.request; urllib.request.urlopen('
    "'http://127.0.0.1:' + os.environ.get('MLSERVER_HTTP_PORT', '8080') + '/v2/health/ready')\""
)


READY_TLS = "ready', context=__import__('ssl')._create_unverified_context())"
"""The end of the check over TLS: the certificate is one for other names than 127.0.0.1."""


def dockerfile(folder: Path) -> str:
    """A Dockerfile that serves `folder` in its present state. Raises InvalidSettings for invalid JSON."""
    conda = next((name for name in CONDA_FILES if (folder / name).is_file()), None)
    pip = (folder / REQUIREMENTS).is_file()
    models = find_target(str(folder)).models()
    stages = [*_build_stage(conda, pip, _extras(folder, models)), "", *_final_stage(folder, conda, models)]
    return "\n".join([HEADER, *stages]) + "\n"


def _build_stage(conda: str | None, pip: bool, extras: str) -> Iterator[str]:
    """Build a Python environment at its path in the final stage, because environments cannot be moved."""
    environment = f"{HOME}/envs/base"
    if conda is None:
        yield f"FROM {_python_image()} AS build"
        yield f"RUN python -m venv {environment}"
    else:
        yield "FROM condaforge/miniforge3 AS build"
        yield f"COPY {conda} /tmp/{conda}"
        yield f"RUN conda env create --prefix {environment} --file /tmp/{conda}"
    yield "# The wheel is the server that has written this file. `server dockerfile` writes it beside it."
    yield f"COPY {WHEEL} /tmp/{WHEEL}"
    yield "# Another release, or the URL of a wheel: --build-arg INFERSTREAM=..."
    yield f"ARG INFERSTREAM=/tmp/{WHEEL}{extras}"
    yield f'RUN {environment}/bin/python -m pip install --no-cache-dir "$INFERSTREAM"'
    if pip:
        yield f"COPY {REQUIREMENTS} /tmp/{REQUIREMENTS}"
        yield f"RUN {environment}/bin/python -m pip install --no-cache-dir -r /tmp/{REQUIREMENTS}"


def _extras(folder: Path, models: Models) -> str:
    """The extras of the package that the models in `folder` and its settings need, in brackets; empty for none."""
    file = folder / SETTINGS_FILE
    server = read_json(file) if file.is_file() else {}
    extras = {extra for field, extra in EXTRAS.items() if server.get(field)}
    for settings in models.values():
        package, *names = re.split(r"[.:]", str(settings.get("implementation")))
        if package == DISTRIBUTION:
            extras.update(names)
        if settings.get("chat_template"):
            extras.add("chat")
    extras.intersection_update(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())
    return f"[{','.join(sorted(extras))}]" if extras else ""


def _final_stage(folder: Path, conda: str | None, models: Models) -> Iterator[str]:
    is_single = [*models] == [MODEL_SETTINGS_FILE]  # with several, the variables of one would apply to all
    yield f"FROM {_python_image() if conda is None else 'debian:bookworm-slim'}"
    yield "RUN useradd --uid 1000 --no-create-home --shell /usr/sbin/nologin server \\"
    yield f" && mkdir -p {HOME} /mnt/models && chown 1000:1000 {HOME} /mnt/models"
    yield f"COPY --from=build {HOME}/envs {HOME}/envs"
    yield from _variables(VARIABLES)
    defaults = _defaults(folder, is_single)
    if defaults:
        yield "# From the settings files: defaults, which the variables of whoever runs the image replace."
        yield from _variables(defaults)
    yield f"WORKDIR {HOME}"
    yield "USER 1000"
    yield "COPY --chown=1000:1000 . ."
    if defaults:
        # The file would win over the variables that orchestrators set.
        yield f"RUN rm -f {SETTINGS_FILE}" + (f" {MODEL_SETTINGS_FILE}" if is_single else "")
        for name, values in _kept(folder, is_single).items():
            yield f"RUN printf %s {shlex.quote(json.dumps(values))} > {name}"
    yield "EXPOSE 8080 8081 8082"
    secure = "ssl_certfile" in defaults.get(f"{MLSERVER_PREFIX}CUSTOM_REST_SERVER_SETTINGS", "")
    health = HEALTH.replace("'http:", "'https:").replace("ready')", READY_TLS) if secure else HEALTH
    yield f"HEALTHCHECK --interval=10s --timeout=2s CMD {health}"
    yield f"CMD {_start(folder, is_single or '' in models)}"


def _start(folder: Path, is_model: bool) -> str:
    """The start command. It serves mounted models, if any, instead of the built-in ones, in their environment."""
    built_in = 'models="$MLSERVER_PATH"'
    if is_model:
        # The defaults that come from the folder of the model. A mounted model has its own folder.
        name = shlex.quote(_name(folder))
        built_in += f'; name={name}; export MLSERVER_MODEL_NAME="${{MLSERVER_MODEL_NAME:-$name}}"'
        built_in += ' MLSERVER_MODEL_URI="${MLSERVER_MODEL_URI:-$MLSERVER_PATH}"'
    return (
        'models="$MLSERVER_MODELS_DIR"; '
        f'if [ -z "$(ls -A "$models" 2>/dev/null)" ]; then {built_in}; fi; '
        'if [ -f "$MLSERVER_ENV_TARBALL" ]; then '
        'export MLSERVER_MODEL_ENVIRONMENT_TARBALL="$MLSERVER_ENV_TARBALL"; fi; '
        'exec server start "$models"'
    )


def _name(folder: Path) -> str:
    """The folder's name, which must not end the line of an instruction. Raises InvalidSettings."""
    name = folder.resolve().name
    if not name.isprintable():
        raise InvalidSettings(f"the name of the folder {name!r} has a character that cannot be printed")
    return name


def _python_image() -> str:
    return f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def _defaults(folder: Path, is_single: bool) -> dict[str, str]:
    """The settings files at the top of `folder` as variables."""
    variables: dict[str, str] = {}
    if (folder / SETTINGS_FILE).is_file():
        values = read_json(folder / SETTINGS_FILE)
        values.pop("model_repository_root", None)
        variables |= _as_variables(MLSERVER_PREFIX, values)
    if is_single:
        values = read_json(folder / MODEL_SETTINGS_FILE)
        parameters = values.pop("parameters", None)
        parameters = dict(parameters) if isinstance(parameters, dict) else {}
        # Declared parameters get a variable each, because orchestrators replace them.
        flat = {
            key: parameters.pop(key)
            for key in ModelParameters.model_fields
            if key in parameters and _fits_variable(parameters[key])
        }
        values |= flat
        if parameters:
            values["parameters"] = parameters
        variables |= _as_variables(MLSERVER_MODEL_PREFIX, values)
    return variables


def _as_variables(prefix: str, values: dict[str, Any]) -> dict[str, str]:
    return {
        prefix + name.upper(): value if isinstance(value, str) else json.dumps(value)
        for name, value in ((PRIVATE.get(name, name), value) for name, value in values.items())
        if _fits_variable(value) and VARIABLE.fullmatch(name)
    }


def _fits_variable(value: Any) -> bool:
    """Whether a variable can hold the value: null has no text, and an instruction ends with its line."""
    return value is not None and not (isinstance(value, str) and len(value.splitlines()) > 1)


def _kept(folder: Path, is_single: bool) -> dict[str, dict[str, Any]]:
    """The settings that remain in files of the image, by file."""
    names = [SETTINGS_FILE, *([MODEL_SETTINGS_FILE] if is_single else ())]
    files = {name: read_json(folder / name) for name in names if (folder / name).is_file()}
    kept = {
        name: {key: value for key, value in values.items() if not _fits_variable(value)}
        for name, values in files.items()
    }
    return {name: values for name, values in kept.items() if values}


def _variables(values: dict[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield f"ENV {name}={_quoted(value)}"


def _quoted(value: str) -> str:
    """A value in the syntax of ENV, with `$` escaped."""
    if value == shlex.quote(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    escaped = " ".join(escaped.splitlines())
    return f'"{escaped}"'
