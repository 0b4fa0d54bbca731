"""`server alias`: installs this command as `mlserver`, for Dockerfiles and scripts that call it."""

import shutil
import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated

import typer

from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import report_errors

NAMES = ("mlserver",)


def alias(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Set the name of the copy: mlserver.", show_default=False)
    ],
) -> None:
    """Write a copy of this command named `mlserver`, for scripts.

    Dockerfiles and scripts that call `mlserver start .`, `mlserver build`, `mlserver dockerfile` or `mlserver infer` then run unchanged. If MLServer is installed, nothing is written. No other command is replaced.
    """  # noqa: E501
    raise typer.Exit(run(name))


@report_errors
def run(name: str) -> int:
    """Write the command `name` next to this one. Returns 1 if nothing was written."""
    command = Path(sys.argv[0])
    if name not in NAMES:
        raise InvalidSettings(f'"{name}" is no name for this command; it may be called: {", ".join(NAMES)}')
    if can_import(name):
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


def can_import(name: str) -> bool:
    """Whether a module with this name is installed."""
    return any(module.name == name for module in iter_modules())
