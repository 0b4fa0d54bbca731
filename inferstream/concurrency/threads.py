"""Threads for the blocking code of a model."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from ..context import request_context

THREADS = 64
"""Threads of a model whose settings have no number."""


class Threads:
    """Runs blocking code of one model, each call in the context of its request."""

    def __init__(self, name: str, threads: int | None) -> None:
        self.executor = ThreadPoolExecutor(threads or THREADS, thread_name_prefix=f"model-{name}")

    async def run(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Call a function in a thread, in this context. A client that leaves sets `cancelled` of the context."""
        context = request_context()
        context.thread = self.executor.submit(copy_context().run, _call, function, *arguments, **named)
        try:
            return await asyncio.wrap_future(context.thread)
        except BaseException:
            context.cancelled = context.cancelled or not context.thread.done()  # left by a cancel
            raise


def _call(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except StopIteration as error:
        # A future cannot hold a StopIteration, so its caller would wait for ever.
        raise RuntimeError(f"{getattr(function, '__name__', function)} raised StopIteration") from error
