"""The entry point of `python -m inferstream`, the command line."""

from .cli.main import app

app()
