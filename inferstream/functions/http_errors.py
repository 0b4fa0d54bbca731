"""`HTTPException` of FastAPI and Starlette, as model code raises it."""

import json
import sys

from ..errors import ModelError, Refused


def single_error(error: BaseException) -> BaseException:
    """Unwrap exception groups with exactly one exception, as task groups raise them."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def from_http_exception(error: BaseException) -> ModelError | None:
    """The error with the status, detail and headers of an `HTTPException`; None for another exception.

    A detail that is not text becomes JSON. A status outside 400 to 599 is not an error, so it returns None too.
    """
    starlette = sys.modules.get("starlette.exceptions")  # imported by whoever has raised one
    if starlette is None or not isinstance(error, starlette.HTTPException):
        return None
    if not 400 <= error.status_code <= 599:
        return None
    headers = {
        str(name).lower(): str(value)
        for name, value in (error.headers or {}).items()
        if f"{name}{value}".isprintable()  # half a character would not cross from a worker
    }
    headers.pop("server", None)  # the server writes it itself
    seconds = headers.pop("retry-after", "")
    detail = error.detail if isinstance(error.detail, str) else json.dumps(error.detail, default=_plain)
    refused = Refused(detail, error.status_code, int(seconds) if seconds.isdecimal() else None)
    refused.headers = headers
    return refused


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)
