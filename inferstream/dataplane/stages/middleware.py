"""Middleware: functions around every call of a model, defined by an app or the settings."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import NoReturn

from ...concurrency.model_task import run_as_task
from ...concurrency.scope import is_own_cancel
from ...errors import InferenceFailed, InferstreamError
from ...functions.errors import ErrorMap
from ...functions.middleware import CallEnd, Middleware
from ...telemetry.ends import kind_of_end
from ...types import InferenceRequest
from ..call import Call, Handler
from ..execution.responses import is_closing
from ..reply import CountedEnd, Reply
from .base import Pipeline, Shared

logger = logging.getLogger("inferstream.middleware")


class SeenCall:
    """A call as middleware sees it. Implements `CallInfo`."""

    __slots__ = ("_began", "call", "callbacks", "entered", "reply")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.entered = False
        """Whether the middleware has passed the call on to the model."""
        self.reply: Reply | None = None
        self._began = perf_counter()
        self.callbacks: list[Callable[[CallEnd], None]] = []
        """Callbacks for the end of the call, in reverse order."""

    @property
    def model(self) -> str:
        return self.call.model

    @property
    def version(self) -> str | None:
        return self.call.version

    @property
    def operation(self) -> str:
        return self.call.operation.value

    @property
    def face(self) -> str:
        return self.call.dialect

    @property
    def request(self) -> InferenceRequest:
        return self.call.request

    @property
    def headers(self) -> Mapping[str, str]:
        return self.call.headers

    @property
    def principal(self) -> str | None:
        return self.call.principal

    @principal.setter
    def principal(self, name: str | None) -> None:
        self.call.principal = name

    def on_end(self, callback: Callable[[CallEnd], None]) -> None:
        if inspect.iscoroutinefunction(callback):
            raise TypeError(f"on_end takes a function that does not wait, and {callback!r} is a coroutine")
        self.callbacks.append(callback)

    def report_end(self, error: BaseException | None, items: int = 0) -> None:
        if not self.callbacks:
            return
        end = CallEnd(kind_of_end(error), perf_counter() - self._began, items)
        for callback in reversed(self.callbacks):
            try:
                callback(end)
            except BaseException:  # Including SystemExit.
                logger.exception("model %s: middleware callback at the end of a call failed", self.model)


Passage = Callable[[SeenCall], Awaitable[Reply]]
"""The `call_next` argument of middleware."""


class Middlewares:
    """Runs middleware around the inner stages, outermost first."""

    def __init__(self, inner: Handler, middlewares: list[Middleware], errors: ErrorMap, model: str) -> None:
        self._errors = errors
        self._model = model
        passage: Passage = partial(_enter, inner)
        for middleware in reversed(middlewares):
            passage = partial(_pass, middleware, passage)
        self._outermost = passage

    async def __call__(self, call: Call) -> Reply:
        seen = SeenCall(call)
        try:
            reply = await self._outermost(seen)
        except BaseException as error:  # Including cancellation.
            if seen.reply is not None:  # The middleware failed after the model had started.
                await seen.reply.aclose(error)
            try:
                self._raise(error)
            except BaseException as raised:  # The error that clients see.
                seen.report_end(raised)
                raise
        return reply.watch(CountedEnd(seen.report_end)) if seen.callbacks else reply

    def _raise(self, error: BaseException) -> NoReturn:
        """Raise the error that clients may see.

        An error from outside the package is logged, unless the app maps it.
        """
        if is_own_cancel(error) or is_closing(error):
            raise error
        raised = self._errors.translate(error) if isinstance(error, Exception) else error
        if isinstance(raised, InferstreamError):
            raise raised from error.__cause__ if raised is error else error
        logger.error("middleware of model %s failed", self._model, exc_info=error)
        raise InferenceFailed(
            f"A middleware of model {self._model} failed; the server's log says why."
        ) from error


async def _enter(inner: Handler, seen: SeenCall) -> Reply:
    """The `call_next` of the innermost middleware."""
    if seen.entered:
        raise RuntimeError("a middleware called call_next twice; a call runs once")
    seen.entered = True
    reply = seen.reply = await inner(seen.call)
    return reply


async def _pass(middleware: Middleware, call_next: Passage, seen: SeenCall) -> Reply:
    reply: Reply | None = await run_as_task(middleware(seen, call_next))
    if reply is None or reply is not seen.reply:
        name = getattr(middleware, "__qualname__", repr(middleware))
        raise TypeError(f"middleware {name} returned a {type(reply).__name__}, not the reply of call_next")
    return reply


def middleware(model: Pipeline, shared: Shared) -> Pipeline:
    """Add the middleware of the app and the settings, if there is any."""
    app = model.app
    middlewares = [*shared.middlewares, *(() if app is None else app.middlewares)]
    if not middlewares:
        return model
    errors = ErrorMap() if app is None else app.errors
    handler = Middlewares(model.handler, middlewares, errors, model.settings.name)
    # Authorization errors take precedence over a full queue, so the queue must not reject calls early.
    return replace(model, handler=handler, form=None, refuse=None)
