"""Tracebacks in error messages, for clients on the same machine during development."""

from collections.abc import Callable
from dataclasses import replace

from ...errors import Code, InferenceFailed, InferstreamError, ModelError, own_status
from ...telemetry.tracebacks import RaisedElsewhere, explain_error
from ...types import Headers
from ..call import Call, Handler
from ..local_clients import is_local
from ..reply import Reply
from .base import Pipeline, Shared

MAX_TRACEBACK_LENGTH = 2500
"""Maximum length of a traceback, in characters. It fits into a gRPC status. The start is cut off."""


class ToldErrors:
    """Replaces each error of a call with `told(error)` if `wanted(call)` is true.

    This includes errors in the middle of a stream.
    """

    def __init__(
        self, inner: Handler, told: Callable[[BaseException], BaseException], wanted: Callable[[Call], bool]
    ) -> None:
        self._inner = inner
        self._told = told
        self._wanted = wanted

    async def __call__(self, call: Call) -> Reply:
        try:
            reply = await self._inner(call)
        except InferstreamError as error:
            if not self._wanted(call):
                raise
            raise self._told(error) from error.__cause__
        if not reply.single and self._wanted(call):
            reply.tell(self._told)
        return reply


def attach_traceback(error: BaseException) -> BaseException:
    """Attach the traceback to an error as its cause, for transfer to another process."""
    if text := explain_error(error):
        error.__cause__ = RaisedElsewhere(text)
    return error


def add_traceback(error: BaseException) -> BaseException:
    """Copy an error and add the traceback to its message. The original may be shared with other callers."""
    if not isinstance(error, InferstreamError) or error.code is not Code.INTERNAL:
        return error
    text = explain_error(error)
    if not text:
        return error
    message = f"{error.message}\n{text if len(text) <= MAX_TRACEBACK_LENGTH else '…' + text[-MAX_TRACEBACK_LENGTH:]}"
    status = own_status(error)
    return InferenceFailed(message) if status is None else ModelError(message, status)


def is_local_client(call: Call) -> bool:
    """Whether the client is on this machine, uses no proxy, and is the only reader of the reply."""
    headers = call.headers
    if not isinstance(headers, Headers) or not is_local(headers.peer or "", headers.raw):
        return False
    # Other connections may resume this stream.
    preferences = (str(value) for name, value in headers.raw if _is_preference(name))
    return not any("resumable" in value.lower() for value in preferences)


def _is_preference(name: str | bytes) -> bool:
    return name.lower() in ("prefer", b"prefer")


def show_errors(model: Pipeline, shared: Shared) -> Pipeline:
    """Add tracebacks to errors in development mode, unless all streams are resumable.

    Other connections could then read the errors.
    """
    resumable = model.settings.resumable_streams
    kept = shared.settings.resumable_streams if resumable is None else resumable
    if not shared.settings.shows_errors or kept:
        return model
    return replace(model, handler=ToldErrors(model.handler, add_traceback, is_local_client))
