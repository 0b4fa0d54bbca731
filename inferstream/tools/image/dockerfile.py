"""`server dockerfile` and `server build`: the image of a model folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ...cli.refusals import told
from ...errors import InvalidSettings
from .image import HEADER, IGNORED, dockerfile
from .wheel import NAME as WHEEL
from .wheel import write_wheel

NAME = "Dockerfile"


@told
def write(folder: Path, with_ignored: bool, force: bool) -> int:
    """Write the Dockerfile into `folder`. Returns 1 if `folder` has one that is not ours."""
    wanted = {NAME: _generated(folder)}
    if with_ignored:
        wanted[".dockerignore"] = IGNORED
    if not force:
        foreign = [name for name in wanted if not _is_ours(folder / name)]
        if foreign:
            raise InvalidSettings(f"{folder} has a {' and a '.join(foreign)} of its own; --force replaces it")
    for name, text in wanted.items():
        (folder / name).write_text(text)
        typer.echo(f"wrote {folder / name}")
    typer.echo(f"wrote {write_wheel(folder)}")
    return 0


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


@told
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
        if not (folder / ".dockerignore").exists():
            path.with_name(f"{NAME}.dockerignore").write_text(IGNORED)  # BuildKit's name for it
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
