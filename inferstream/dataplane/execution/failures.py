"""Translates exceptions of model code: the log gets everything, the client one sentence."""

import asyncio
import logging

from ...errors import InferenceFailed, InferstreamError

logger = logging.getLogger("inferstream.model")


def translated(error: BaseException, model: str, request_id: str | None) -> BaseException:
    """The error to raise in place of `error`, which model code raised.

    A cancel by the server passes; a model that cancels itself counts as failed. `SystemExit` and `KeyboardInterrupt`
    from a model count as failures, because they must not end the server.
    """
    stays = _stays(error)
    if stays and not isinstance(error, InferenceFailed):
        return error
    on_request = f" on request {request_id}" if request_id else ""
    logger.error("model %s failed%s", model, on_request, exc_info=error)
    if stays:
        return error
    return InferenceFailed(f"Model {model} failed{on_request}; the server's log says why.")


def cause(error: BaseException) -> BaseException | None:
    """The cause for `translated(error)`. An error that passes keeps its own cause."""
    return error.__cause__ if _stays(error) else error


def _stays(error: BaseException) -> bool:
    if isinstance(error, asyncio.CancelledError):
        return _being_cancelled()
    return isinstance(error, GeneratorExit | InferstreamError)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
