"""`told`: the refusals of a command, each as a line for its user."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from ..errors import InferstreamError

P = ParamSpec("P")


def told(run: Callable[P, int]) -> Callable[P, int]:
    """Make a command print what it refuses, and what the system refuses it, and return 1; 130 after Ctrl-C."""

    @wraps(run)
    def code(*arguments: P.args, **named: P.kwargs) -> int:
        try:
            return run(*arguments, **named)
        except InferstreamError as error:
            reason = str(error)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        except KeyboardInterrupt:
            return 130
        typer.echo(f"error: {reason}", err=True)
        return 1

    return code
