"""`server shout`."""

import typer


def shout(text: str) -> None:
    """Print TEXT in capitals."""
    typer.echo(text.upper())
