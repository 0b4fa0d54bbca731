"""`server dockerfile` and `server build`: the image of a model folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from inferstream.ext.hosting import report_errors

from ...errors import InvalidSettings
from .image import HEADER, HOME, IGNORED, dockerfile
from .secrets import ignore_lines, secret_files, uncovered
from .wheel import NAME as WHEEL
from .wheel import write_wheel

NAME = "Dockerfile"
IGNORE_FILE = ".dockerignore"


@report_errors
def write(folder: Path, with_ignored: bool, force: bool) -> int:
    """Write the Dockerfile into `folder`. Returns 1 if `folder` has one that is not ours."""
    wanted = {NAME: _generated(folder)}
    secrets = secret_files(folder)
    if with_ignored or (secrets and not (folder / IGNORE_FILE).exists()):
        wanted[IGNORE_FILE] = IGNORED + ignore_lines(secrets)
    else:
        _check_ignored(folder, secrets)
    if not force:
        foreign = [name for name in wanted if not _is_ours(folder / name)]
        if foreign:
            raise InvalidSettings(f"{folder} has a {' and a '.join(foreign)} of its own; --force replaces it")
    for name, text in wanted.items():
        (folder / name).write_text(text)
        typer.echo(f"wrote {folder / name}")
    typer.echo(f"wrote {write_wheel(folder)}")
    for secret in secrets:
        typer.echo(f"{secret} stays outside the image; mount it at {HOME}/{secret}")
    return 0


def _check_ignored(folder: Path, secrets: list[str]) -> None:
    """Raise InvalidSettings if the folder's own .dockerignore lets a secret into the image."""
    path = folder / IGNORE_FILE
    if copied := uncovered(secrets, path.read_text(errors="replace") if path.exists() else ""):
        raise InvalidSettings(
            f"{path} does not keep {', '.join(copied)} out of the image, which holds keys; add a line"
        )


def _generated(folder: Path) -> str:
    if not folder.is_dir():
        raise InvalidSettings(f"{folder} is not a folder")
    return dockerfile(folder)


def _is_ours(path: Path) -> bool:
    """Whether the file does not exist or has our header, so that it may be replaced."""
    if not path.exists():
        return True
    start = HEADER if path.name == NAME else IGNORED.partition("\n")[0]
    return path.read_text(errors="replace").startswith(start)


@report_errors
def build(folder: Path, tag: str, no_cache: bool) -> int:
    """Build the image of `folder`. Returns Docker's exit code, or 1 without Docker."""
    docker = shutil.which("docker")
    if docker is None:
        raise InvalidSettings(
            "there is no `docker` on the PATH; `server dockerfile` writes the file for another builder"
        )
    generated = _generated(folder)
    if not _engine_responds(docker):
        raise InvalidSettings("docker is there and its engine does not answer (`docker version` says why)")
    with tempfile.TemporaryDirectory() as beside:
        path = Path(beside, NAME)
        own = folder / NAME
        # Users may edit the file that `server dockerfile` has written, so it is used if it exists.
        path.write_text(own.read_text() if own.exists() and _is_ours(own) else generated)
        secrets = secret_files(folder)
        if (folder / IGNORE_FILE).exists():
            _check_ignored(folder, secrets)
        else:  # BuildKit's name for it
            path.with_name(f"{NAME}{IGNORE_FILE}").write_text(IGNORED + ignore_lines(secrets))
        command = [docker, "build", "--rm", "--file", str(path), "--tag", tag]
        command += [*(["--no-cache"] if no_cache else []), str(folder)]
        with _wheel_in(folder):
            return subprocess.run(command, env={**os.environ, "DOCKER_BUILDKIT": "1"}, check=False).returncode


@contextmanager
def _wheel_in(folder: Path) -> Iterator[None]:
    """Put the wheel into the folder, from which alone Docker copies, unless `server dockerfile` has."""
    there = (folder / WHEEL).exists()
    path = write_wheel(folder)
    try:
        yield
    finally:
        if not there:
            path.unlink()


def _engine_responds(docker: str) -> bool:
    asked = subprocess.run([docker, "version"], capture_output=True, check=False)
    return asked.returncode == 0
