"""One span for each call, with its first response, its end, and the spans of model code in it."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import InferstreamError
from ...settings import ModelSettings
from ..call import Call
from ..handler import Handler
from ..metering import kind_of
from ..reply import AtEnd, Reply
from .base import Pipeline, Shared
from .gen_ai import GenAi, LastParameters, operation_of, responded

if TYPE_CHECKING:
    from ...telemetry.tracing import Span, Tracer


class Tracing:
    """The outermost stage where the settings enable traces. A worker gets the span with the call."""

    def __init__(
        self, inner: Handler, tracer: "Tracer", settings: ModelSettings, gen_ai: GenAi | None
    ) -> None:
        self._inner = inner
        self._tracer = tracer
        self._name = settings.name
        self._gen_ai = gen_ai
        self._values = {"model.name": settings.name, "model.version": settings.version or ""}

    async def __call__(self, call: Call) -> Reply:
        values: dict[str, Any] = {**self._values, "request.id": call.request.id or ""}
        gen_ai = self._gen_ai
        if gen_ai is not None:
            values |= gen_ai.asked(call)
        span = self._tracer.call(f"{call.operation.value} {self._name}", values)
        call.trace = span.carrier()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # a cancelled call has ended too
            _end(span, error)
            raise
        if reply.single:
            if gen_ai is not None:
                span.note(responded(None if reply.first is None else reply.first.parameters, None))
            _end(span, None)
            return reply
        if reply.first is not None:
            span.happened("first response")
        if gen_ai is None:
            return reply.watch(AtEnd(partial(_end_stream, span)))
        return reply.watch(TracedText(span))


class TracedText(LastParameters):
    """Ends the span of a stream of text."""

    __slots__ = ("_span",)

    def __init__(self, span: "Span") -> None:
        super().__init__()
        self._span = span

    def end(self, error: BaseException | None) -> None:
        self._span.note(responded(self.parameters, self.items))
        _end_stream(self._span, error)


def _end_stream(span: "Span", error: BaseException | None) -> None:
    if failure := _end(span, error):
        span.blame_parent(failure)  # its status was already sent


def _end(span: "Span", error: BaseException | None) -> str | None:
    """End a call's span; returns its failure. A client that leaves is not a failure."""
    kind = kind_of(error)
    span.note({"call.end": kind})
    failure = None
    if kind not in ("success", "cancelled"):
        failure = error.message if isinstance(error, InferstreamError) else kind
    span.end(failure)
    return failure


def tracing(model: Pipeline, shared: Shared) -> Pipeline:
    """Off without a collector in the settings."""
    if shared.tracer is None:
        return model
    operation = operation_of(model.text)
    gen_ai = None if operation is None else GenAi(model.settings.name, operation)
    handler = Tracing(model.handler, shared.tracer, model.settings, gen_ai)
    return replace(model, handler=handler, refuse=None)  # refused calls must be traced too
