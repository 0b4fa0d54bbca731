"""The command line: `server` under MLServer's name."""

import typer

from inferstream.cli.main import app

root = typer.main.get_command(app)


def main() -> None:
    """Run the command that the process was given."""
    app()


__all__ = ["main", "root"]
