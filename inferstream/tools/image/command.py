"""`server dockerfile` and `server build`: their flags; `dockerfile` does the work."""

from pathlib import Path
from typing import Annotated

import typer


def dockerfile(
    folder: Annotated[Path, typer.Argument(help="Folder of models, or of one model.")],
    include_dockerignore: Annotated[
        bool, typer.Option("--include-dockerignore", "-i", help="Write a .dockerignore as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that you wrote.")] = False,
) -> None:
    """Write a Dockerfile for FOLDER into it."""
    from .dockerfile import write

    raise typer.Exit(write(folder, include_dockerignore, force))


def build(
    folder: Annotated[Path, typer.Argument(help="Folder of models, or of one model.")],
    tag: Annotated[str, typer.Option("--tag", "-t", help="Name of the image.")],
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Build every layer anew.")] = False,
) -> None:
    """Build the image of FOLDER with Docker."""
    from .dockerfile import build as run

    raise typer.Exit(run(folder, tag, no_cache))
