"""Turns whatever model code raises into one error of our tree: the log gets all of it, the client one sentence."""

import asyncio
import logging

from ...errors import InferenceFailed, InferstreamError

logger = logging.getLogger("inferstream.model")


def translated(error: BaseException, model: str, request_id: str | None) -> BaseException:
    """The error to raise in place of `error`, which model code raised.

    A cancellation passes when it is ours, and counts as a failure when the model cancelled itself.
    `SystemExit` and `KeyboardInterrupt` from a model must not end the server, so they are failures too.
    """
    if isinstance(error, GeneratorExit) or (isinstance(error, asyncio.CancelledError) and _being_cancelled()):
        return error
    if isinstance(error, InferstreamError) and not isinstance(error, InferenceFailed):
        return error
    on_request = f" on request {request_id}" if request_id else ""
    logger.error("model %s failed%s", model, on_request, exc_info=error)
    if isinstance(error, InferenceFailed):
        return error
    return InferenceFailed(f"Model {model} failed{on_request}; the server's log says why.")


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
