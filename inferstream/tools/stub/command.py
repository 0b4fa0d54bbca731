"""`server stub`: its flags; `run` does the work."""

from pathlib import Path
from typing import Annotated

import typer


def stub(
    target: Annotated[str, typer.Argument(help="An app: module:app or app.py.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
) -> None:
    """Write a typed client of the app TARGET."""
    from .run import run

    raise typer.Exit(run(target, output))
