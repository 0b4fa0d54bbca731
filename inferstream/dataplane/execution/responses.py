"""The responses of a streaming call, and the translation of model errors: the log gets all, the client a sentence."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from ...concurrency.model_task import outcome_of
from ...concurrency.scope import is_own_cancel, swallowed
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
"""Seconds that a caller waits for a model's `finally`."""

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "failed to allocate memory")
"""Words of CUDA, of PyTorch's allocator on a processor, and of ONNX Runtime; their errors have no class in common."""

RUNTIME_ERRORS = ("EPFail", "Fail", "RuntimeException")
"""Names of classes for such errors in libraries where these are no RuntimeErrors, such as ONNX Runtime."""

StartStream = Callable[[Payloads], Awaitable[AsyncIterator[InferenceResponse]]]


class ModelResponses:
    """A model's stream; not a generator, so that `aclose` reaches the model at once."""

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
        except BaseException as error:  # model code may raise anything
            raise translated(error, call.model, call.request.id) from cause(error)

    def direct(self) -> Direct | None:
        """How to read on without this object; None without responses."""
        if self._responses is None:
            return None
        return Direct(self._responses.__anext__, self._finish.of(self._payloads), self._failure)

    def _failure(self, error: BaseException) -> tuple[BaseException, BaseException | None]:
        return translated(error, self._call.model, self._call.request.id), cause(error)

    async def aclose(self) -> None:
        """Run the model's `finally`, for at most `CLOSE_LIMIT` seconds."""
        close = getattr(self._responses, "aclose", None)
        if close is None:
            return
        call = self._call
        closing = asyncio.ensure_future(
            outcome_of(close())
        )  # a task with SystemExit would end the event loop
        try:
            await asyncio.wait([closing], timeout=CLOSE_LIMIT)
        except BaseException:  # a cancel, which must not give the slot away while the model's code runs
            await asyncio.wait([closing], timeout=CLOSE_LIMIT)
            raise
        finally:
            if not closing.done():
                closing.cancel()
                cleanup_lingers(call)
            elif closing.cancelled():
                cleanup_failed(call, swallowed())
            elif (error := closing.result().error) is not None:
                cleanup_failed(call, error)


def cleanup_lingers(call: Call) -> None:
    """Log that the `finally` of a stream took longer than `CLOSE_LIMIT`."""
    logger.error(
        "model %s still runs its cleanup of request %s; no longer waiting", call.model, call.request.id
    )


def cleanup_failed(call: Call, error: BaseException) -> None:
    """Log an error of a stream's `finally`, which no reader gets."""
    logger.error("model %s failed in its cleanup of request %s", call.model, call.request.id, exc_info=error)


async def open_reply(responses: ModelResponses) -> Reply:
    """The reply, when its first response exists. An earlier failure closes the generator."""
    try:
        first = await responses.__anext__()
    except StopAsyncIteration:
        return StreamReply(None, responses)
    except BaseException:  # a cancel too
        await responses.aclose()
        raise
    return StreamReply(first, responses, responses.direct())


def translated(
    error: BaseException, model: str, request_id: str | None, halved: bool = False
) -> BaseException:
    """The error to raise in place of `error`, which model code raised.

    A cancel by the server passes; a model that cancels itself counts as failed. `SystemExit` and `KeyboardInterrupt`
    from a model count as failures, because they must not end the server. The log has the traceback of a batch's failure
    once: that of a single request, if the batch is `halved` to find it.
    """
    single = single_error(error)
    if (http := from_http_exception(single)) is not None:
        return http
    error = owned(single if isinstance(single, InferstreamError) else error, model)
    stays = _stays(error)
    if stays and not isinstance(error, InferenceFailed):
        return error
    on_request = f" on request {request_id}" if request_id else ""
    if halved:
        said = f"{type(error).__name__}: {error}"
        logger.warning("model %s failed on a batch, whose halves are tried next: %s", model, said)
    else:
        logger.error("model %s failed%s", model, on_request, exc_info=error)
    if stays:
        return error
    if _tells_of_memory(error):
        return OutOfMemory(f"Model {model} ran out of memory{on_request}.")
    return InferenceFailed(f"Model {model} failed{on_request}; the server's log says why.")


def owned(error: BaseException, model: str) -> BaseException:
    """The error as the model's own, if a codec cannot encode a value that the model returned."""
    if not (isinstance(error, CodecError) and error.of_output):
        return error
    wrong = InvalidOutput(f"Model {model} returned a value that cannot be encoded: {error.message}")
    wrong.__cause__ = error
    return wrong


def cause(error: BaseException) -> BaseException | None:
    """The cause for `translated(error)`. An error that passes keeps its own cause."""
    return error.__cause__ if _stays(error) else error


def _stays(error: BaseException) -> bool:
    return isinstance(error, InferstreamError) or is_own_cancel(error) or is_closing(error)


def is_closing(error: BaseException) -> bool:
    """Whether Python closes a coroutine that nobody awaits. Model code may raise GeneratorExit without that."""
    return isinstance(error, GeneratorExit) and asyncio._get_running_loop() is None


def _tells_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python and NumPy raise MemoryError, the libraries of models say it in the text."""
    if isinstance(error, RuntimeError) or type(error).__name__ in RUNTIME_ERRORS:
        said = str(error).lower()
        return any(words in said for words in OUT_OF_MEMORY)
    return isinstance(error, MemoryError)
