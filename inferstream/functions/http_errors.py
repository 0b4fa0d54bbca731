"""Conversion of `HTTPException` from FastAPI and Starlette, which model code may raise."""

import json
import sys

from ..errors import ModelError, Refused


def single_error(error: BaseException) -> BaseException:
    """Unwrap exception groups with exactly one exception, as raised by task groups."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def from_http_exception(error: BaseException) -> ModelError | None:
    """Return the error with the status, detail and headers of an `HTTPException`.

    A detail that is not a string becomes JSON. Returns None for any other exception, or if the status is not
    between 400 and 599.
    """
    starlette = sys.modules.get("starlette.exceptions")  # already imported if it was raised
    if starlette is None or not isinstance(error, starlette.HTTPException):
        return None
    if not 400 <= error.status_code <= 599:
        return None
    headers = {
        str(name).lower(): str(value)
        for name, value in (error.headers or {}).items()
        if f"{name}{value}".isprintable()  # a worker cannot send lone surrogates
    }
    headers.pop("server", None)  # the server sets its own
    seconds = headers.pop("retry-after", "")
    detail = error.detail if isinstance(error.detail, str) else json.dumps(error.detail, default=_plain)
    refused = Refused(detail, error.status_code, int(seconds) if seconds.isdecimal() else None)
    refused.headers = headers
    return refused


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)
