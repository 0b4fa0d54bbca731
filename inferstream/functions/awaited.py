"""What a function needs that awaits before it runs: its dependencies, and a thread if it blocks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from ..context import request_context
from ..types import InferenceRequest

if TYPE_CHECKING:
    from .arguments import Arguments

THREADS = 64
"""Threads of a function whose settings have no number."""


class Threads:
    """Runs the blocking code of one model that its coroutines wait for. The threads end with the model."""

    def __init__(self, name: str, threads: int | None) -> None:
        self._executor = ThreadPoolExecutor(threads or THREADS, thread_name_prefix=f"model-{name}")

    async def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call a function in a thread, in this context. A client that leaves sets `cancelled` of the context."""
        context = request_context()
        context.thread = self._executor.submit(copy_context().run, partial(_call, function, arguments))
        try:
            return await asyncio.wrap_future(context.thread)
        except BaseException:
            context.cancelled = context.cancelled or not context.thread.done()  # left by a cancel
            raise


async def read(model: Any, arguments: "Arguments", request: InferenceRequest) -> dict[str, Any]:
    """The arguments of a request, read in a thread of the model if they are large. Raises InvalidRequest."""
    if not arguments.takes_long(request):
        return arguments.read(request)
    given: dict[str, Any] = await model.waiting.run(arguments.read, {"request": request})
    return given


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:
        # A future cannot hold a StopIteration, so its caller would wait for ever.
        raise RuntimeError(f"{getattr(function, '__name__', function)} raised StopIteration") from error
