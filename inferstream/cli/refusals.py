"""Error reporting for commands."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from ..errors import InferstreamError, describe_failure

P = ParamSpec("P")


def report_errors(run: Callable[P, int]) -> Callable[P, int]:
    """Make a command print an InferstreamError or OSError and return 1.

    After Ctrl-C it returns 130.
    """

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
        typer.echo(describe_failure(reason), err=True)
        return 1

    return code
