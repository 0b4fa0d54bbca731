"""`python -m inferstream` is the command line."""

from .cli.main import app

app()
