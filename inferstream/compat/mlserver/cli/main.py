"""The command line: `server` under MLServer's name."""

import typer

from inferstream.cli.main import app
from inferstream.compat.machinery import stand_ins

root = typer.main.get_command(app)
assert isinstance(root, typer.core.TyperGroup)
build, dockerfile, infer, start = (root.commands[name] for name in ("build", "dockerfile", "infer", "start"))
init_project = root.commands["init"]


def main() -> None:
    """Run the command that the process was given."""
    app()


__getattr__ = stand_ins(__name__)

__all__ = ["build", "dockerfile", "infer", "init_project", "main", "root", "start"]
