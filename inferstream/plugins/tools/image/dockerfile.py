"""The implementation of `server dockerfile` and `server build`."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import report_errors

from .allowed_runtimes import AllowedRuntimes
from .dependencies import REQUIREMENTS, find_missing_plugins
from .image import HEADER, HOME, IGNORED, generate_dockerfile
from .secrets import find_secrets, find_uncovered_secrets, generate_ignore_lines
from .wheel import NAME as WHEEL
from .wheel import write_wheel

NAME = "Dockerfile"
IGNORE_FILE = ".dockerignore"
BUILDERS = ("docker", "podman", "buildah")


@report_errors
def write(folder: Path, with_ignored: bool, force: bool, allowed: AllowedRuntimes) -> int:
    """Write the Dockerfile, the wheel and, if needed, a .dockerignore into `folder`.

    Returns 1 if it would overwrite files that inferstream did not generate and `force` is not set.
    """
    wanted = {NAME: _generate(folder, allowed)}
    secrets = find_secrets(folder)
    if with_ignored or (secrets and not (folder / IGNORE_FILE).exists()):
        wanted[IGNORE_FILE] = IGNORED + generate_ignore_lines(secrets)
    else:
        _check_ignore_file(folder, secrets)
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
    _report_choices(folder, allowed)
    return 0


def _report_choices(folder: Path, allowed: AllowedRuntimes) -> None:
    """Print what users could miss in the image."""
    for name in find_missing_plugins(folder):
        typer.echo(f"plug-in {name} is not in the image; add it to {REQUIREMENTS} if you use it", err=True)
    if _is_mlserver() and not allowed.is_limited:
        typer.echo("the image trusts every class; --no-dev trusts only the built-in runtimes", err=True)


def _is_mlserver() -> bool:
    return Path(sys.argv[0]).name == "mlserver"


def _check_ignore_file(folder: Path, secrets: list[str]) -> None:
    """Raise InvalidSettings if an existing .dockerignore does not exclude a secret from the image."""
    path = folder / IGNORE_FILE
    if copied := find_uncovered_secrets(secrets, path.read_text(errors="replace") if path.exists() else ""):
        raise InvalidSettings(
            f"{path} does not keep {', '.join(copied)} out of the image, which holds keys; add a line"
        )


def _generate(folder: Path, allowed: AllowedRuntimes) -> str:
    if not folder.is_dir():
        raise InvalidSettings(f"{folder} is not a folder")
    return generate_dockerfile(folder, allowed, like_mlserver=_is_mlserver())


def _is_ours(path: Path) -> bool:
    """Whether the file is missing or has our header, so that it may be overwritten."""
    if not path.exists():
        return True
    start = HEADER if path.name == NAME else IGNORED.partition("\n")[0]
    return path.read_text(errors="replace").startswith(start)


@report_errors
def build(folder: Path, tag: str, no_cache: bool, allowed: AllowedRuntimes) -> int:
    """Build the image of `folder`. Returns the exit code of the builder, or 1 if there is none."""
    generated = _generate(folder, allowed)
    builder = _find_builder()
    with tempfile.TemporaryDirectory() as beside:
        path = Path(beside, NAME)
        own = folder / NAME
        # An existing generated Dockerfile is used, because users may have edited it.
        is_usable = own.exists() and _is_ours(own) and not allowed.is_limited
        path.write_text(own.read_text() if is_usable else generated)
        command = [builder, "build", "--rm", "--file", str(path), "--tag", tag]
        secrets = find_secrets(folder)
        if (folder / IGNORE_FILE).exists():
            _check_ignore_file(folder, secrets)
        else:
            ignored = path.with_name(f"{NAME}{IGNORE_FILE}")  # the name that BuildKit reads
            ignored.write_text(IGNORED + generate_ignore_lines(secrets))
            command += [] if Path(builder).name == "docker" else ["--ignorefile", str(ignored)]
        command += [*(["--no-cache"] if no_cache else []), str(folder)]
        _report_choices(folder, allowed)
        # The OCI format of Podman and Buildah has no health checks.
        environment = {**os.environ, "DOCKER_BUILDKIT": "1", "BUILDAH_FORMAT": "docker"}
        with _add_wheel(folder):
            return subprocess.run(command, env=environment, check=False).returncode


def _find_builder() -> str:
    """Return the first program that can build images. Raises InvalidSettings if there is none."""
    available = [path for name in BUILDERS if (path := shutil.which(name))]
    if not available:
        raise InvalidSettings(
            f"there is no {' or '.join(f'`{name}`' for name in BUILDERS)} on the PATH; "
            "`server dockerfile` writes the file for another builder"
        )
    for path in available:
        if subprocess.run([path, "version"], capture_output=True, check=False).returncode == 0:
            return path
    name = Path(available[0]).name
    raise InvalidSettings(f"{name} is there and its engine does not answer (`{name} version` says why)")


@contextmanager
def _add_wheel(folder: Path) -> Iterator[None]:
    """Put the wheel into the build context during the block. An existing wheel is kept afterwards."""
    there = (folder / WHEEL).exists()
    path = write_wheel(folder)
    try:
        yield
    finally:
        if not there:
            path.unlink()
