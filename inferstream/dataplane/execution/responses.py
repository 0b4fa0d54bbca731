"""The responses of a streaming call, and the conversion of model errors to log records and client errors."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from ...concurrency.model_task import run_to_outcome
from ...concurrency.scope import is_own_cancel, swallowed_cancellation
from ...errors import CodecError, InferenceFailed, InferstreamError, InvalidOutput
from ...functions.http_errors import from_http_exception, single_error
from ...processes.errors import OutOfMemory
from ...types import InferenceResponse
from ..call import Call
from ..outputs import Finish
from ..reply import Direct, Reply, StreamReply
from .payloads import Payloads

logger = logging.getLogger("inferstream.model")

CLOSE_LIMIT = 5.0
"""Maximum time to wait for the `finally` blocks of a model, in seconds."""

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "failed to allocate memory")
"""Phrases in the error messages of CUDA, PyTorch (on CPUs) and ONNX Runtime, which share no error class."""

RUNTIME_ERRORS = ("EPFail", "Fail", "RuntimeException")
"""Names of error classes that libraries such as ONNX Runtime use instead of RuntimeError."""

StartStream = Callable[[Payloads], Awaitable[AsyncIterator[InferenceResponse]]]


class ModelResponses:
    """A model's stream. It is not a generator, so that `aclose` reaches the model immediately."""

    __slots__ = ("_call", "_finish", "_payloads", "_responses", "_start")

    def __init__(self, start: StartStream, payloads: Payloads, finish: Finish) -> None:
        self._start = start
        self._call = payloads.call
        self._payloads = payloads
        self._finish = finish
        self._responses: AsyncIterator[InferenceResponse] | None = None

    async def __anext__(self) -> InferenceResponse:
        call = self._call
        try:
            if self._responses is None:
                self._responses = await self._start(self._payloads)
            return self._finish(await self._responses.__anext__(), self._payloads.current)
        except StopAsyncIteration:
            raise
        except BaseException as error:  # Model code may raise anything.
            raise translate_error(error, call.model, call.request.id) from cause(error)

    def direct(self) -> Direct | None:
        """Return a `Direct` that reads the rest without this object. None before the first response."""
        if self._responses is None:
            return None
        return Direct(self._responses.__anext__, self._finish.of(self._payloads), self._failure)

    def _failure(self, error: BaseException) -> tuple[BaseException, BaseException | None]:
        return translate_error(error, self._call.model, self._call.request.id), cause(error)

    async def aclose(self) -> None:
        """Run the model's `finally` blocks, for at most `CLOSE_LIMIT` seconds."""
        close = getattr(self._responses, "aclose", None)
        if close is None:
            return
        call = self._call
        closing = asyncio.ensure_future(
            run_to_outcome(close())
        )  # SystemExit in a task would stop the event loop.
        try:
            await asyncio.wait([closing], timeout=CLOSE_LIMIT)
        except BaseException:  # Cancelled. The slot must not be released while model code is running.
            await asyncio.wait([closing], timeout=CLOSE_LIMIT)
            raise
        finally:
            if not closing.done():
                closing.cancel()
                log_unfinished_cleanup(call)
            elif closing.cancelled():
                log_cleanup_error(call, swallowed_cancellation())
            elif (error := closing.result().error) is not None:
                log_cleanup_error(call, error)


def log_unfinished_cleanup(call: Call) -> None:
    """Log that the `finally` blocks of a stream exceeded `CLOSE_LIMIT`."""
    logger.error(
        "model %s: cleanup of request %s is still running; no longer waiting for it",
        call.model,
        call.request.id,
    )


def log_cleanup_error(call: Call, error: BaseException) -> None:
    """Log an error in a `finally` block of a stream, which no reader receives."""
    logger.error("model %s failed while cleaning up request %s", call.model, call.request.id, exc_info=error)


async def open_reply(responses: ModelResponses) -> Reply:
    """Return the reply once the first response exists. Closes the generator if that fails."""
    try:
        first = await responses.__anext__()
    except StopAsyncIteration:
        return StreamReply(None, responses)
    except BaseException:  # Including cancellation.
        await responses.aclose()
        raise
    return StreamReply(first, responses, responses.direct())


def translate_error(
    error: BaseException, model: str, request_id: str | None, halved: bool = False
) -> BaseException:
    """Convert an error of model code to the error to raise, and log it.

    If the server cancelled the task, the CancelledError is kept. Otherwise, a CancelledError, SystemExit or
    KeyboardInterrupt from model code counts as a failure of the model, because it must not stop the server.

    If `halved`, only a short warning is logged, because the batch is retried in halves. The traceback is then
    logged for the request that fails.
    """
    single = single_error(error)
    if (http := from_http_exception(single)) is not None:
        return http
    error = to_invalid_output(single if isinstance(single, InferstreamError) else error, model)
    stays = _stays(error)
    if stays and not isinstance(error, InferenceFailed):
        return error
    on_request = f" on request {request_id}" if request_id else ""
    if halved:
        said = f"{type(error).__name__}: {error}"
        logger.warning("model %s failed on a batch; retrying it in halves: %s", model, said)
    else:
        logger.error("model %s failed%s", model, on_request, exc_info=error)
    if stays:
        return error
    if _is_out_of_memory(error):
        return OutOfMemory(f"Model {model} ran out of memory{on_request}.")
    return InferenceFailed(f"Model {model} failed{on_request}; the server's log says why.")


def to_invalid_output(error: BaseException, model: str) -> BaseException:
    """Convert a CodecError raised for a model's value to InvalidOutput. Other errors are unchanged."""
    if not (isinstance(error, CodecError) and error.of_output):
        return error
    wrong = InvalidOutput(f"Model {model} returned a value that cannot be encoded: {error.message}")
    wrong.__cause__ = error
    return wrong


def cause(error: BaseException) -> BaseException | None:
    """Return the `__cause__` for the translation of `error`. An error that is not translated keeps its cause."""
    return error.__cause__ if _stays(error) else error


def _stays(error: BaseException) -> bool:
    return isinstance(error, InferstreamError) or is_own_cancel(error) or is_closing(error)


def is_closing(error: BaseException) -> bool:
    """Whether Python is closing an unawaited coroutine. Model code may also raise GeneratorExit itself."""
    return isinstance(error, GeneratorExit) and asyncio._get_running_loop() is None


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the error means that memory ran out.

    Python and NumPy raise MemoryError. Other libraries only mention it in the message.
    """
    if isinstance(error, RuntimeError) or type(error).__name__ in RUNTIME_ERRORS:
        said = str(error).lower()
        return any(words in said for words in OUT_OF_MEMORY)
    return isinstance(error, MemoryError)
