"""`server alias`: this command under MLServer's name, for Dockerfiles and scripts that were written for it."""

import shutil
import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated

import typer

from inferstream.ext.hosting import report_errors

from ..errors import InvalidSettings

NAMES = ("mlserver",)


def alias(
    name: Annotated[str, typer.Argument(help="The further name of this command: mlserver.")],
) -> None:
    """Write the command NAME beside this one, for Dockerfiles and scripts that call it."""
    raise typer.Exit(run(name))


@report_errors
def run(name: str) -> int:
    """Write the command `name` beside this one; returns 1 when nothing was written."""
    command = Path(sys.argv[0])
    if name not in NAMES:
        raise InvalidSettings(f'"{name}" is no name for this command; it may be called: {", ".join(NAMES)}')
    if is_installed(name):
        raise InvalidSettings(f"{name} is installed, and its command is its own")
    if command.name not in ("server", "inferstream"):
        raise InvalidSettings(f"{command.name} cannot be copied; call it as `server alias {name}`")
    path = command.with_name(name)
    if not path.exists():
        shutil.copy2(command, path)
    elif path.read_bytes() != command.read_bytes():
        raise InvalidSettings(f"{path} is another command already; nothing was written")
    typer.echo(f"{path} is the command {command.name}", err=True)
    return 0


def is_installed(name: str) -> bool:
    """Whether a module of this name is on the path."""
    return any(module.name == name for module in iter_modules())
