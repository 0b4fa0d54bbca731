"""Spans of calls: one for each, with its first response, its end, and the spans of model code in it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from inferstream import ModelSettings
from inferstream.ext.calls import (
    AtEnd,
    Call,
    Handler,
    LastParameters,
    Operation,
    Reply,
    StageContext,
    StagedModel,
)
from inferstream.ext.runtimes import TextFacts
from inferstream.ext.telemetry import kind_of_end
from inferstream.plugins.otel.gen_ai import model_attributes
from inferstream.plugins.otel.tracer import build_tracer

from ...errors import InferstreamError
from ...types import InferenceRequest, Parameters

if TYPE_CHECKING:
    from ...telemetry.tracing import Span, Tracer


Values = dict[str, str | int | float | Sequence[str]]

REQUESTED: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "top_k": ("gen_ai.request.top_k", int),
    "seed": ("gen_ai.request.seed", int),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
}
"""Parameters of requests: the attribute of each, and its type."""


class GenAi:
    """The attributes of one model's calls."""

    def __init__(self, model: str, operation: str) -> None:
        self._fixed = model_attributes(model, operation)

    def asked(self, call: Call) -> Values:
        """What is known when a call begins."""
        values: Values = {**self._fixed, "gen_ai.request.stream": call.operation is Operation.STREAM}
        for name, value in _parameters(call.request).items():
            attribute, kind = REQUESTED[name]
            if isinstance(value, int | float):
                values[attribute] = kind(value)
        return values


def describe_usage(responses: Reply | LastParameters, items: int | None) -> Values:
    """Attributes of the tokens of a call. `items` is the number of responses of a stream."""
    usage = responses.usage
    values: Values = {}
    if usage.prompt_tokens is not None:
        values["gen_ai.usage.input_tokens"] = usage.prompt_tokens
    written = items if usage.completion_tokens is None else usage.completion_tokens
    if written is not None:
        values["gen_ai.usage.output_tokens"] = written
    if usage.finish_reason is not None:
        values["gen_ai.response.finish_reasons"] = [usage.finish_reason]
    return values


def _parameters(request: InferenceRequest) -> dict[str, Any]:
    """The sampling parameters of a request, which are parameters or inputs of one value."""
    said = None if request.parameters is None else request.parameters.__pydantic_extra__
    sampling = {name: value for name, value in (said or {}).items() if name in REQUESTED}
    for tensor in request.inputs:
        if tensor.name in REQUESTED:
            values = tensor.data.flat()
            if len(values) == 1:
                sampling[tensor.name] = values[0]
    return sampling


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
                span.note(describe_usage(reply, None))
            _end(span, None)
            return reply
        if reply.first is not None:
            span.happened("first response")
        if gen_ai is None:
            return reply.watch(AtEnd(partial(_end_stream, span)))
        return reply.watch(TracedText(span, reply.parameters))


class TracedText(LastParameters):
    """Ends the span of a stream of text."""

    __slots__ = ("_span",)

    def __init__(self, span: "Span", first: Parameters | None) -> None:
        super().__init__(first)
        self._span = span

    def end(self, error: BaseException | None) -> None:
        self._span.note(describe_usage(self, self.items))
        _end_stream(self._span, error)


def _end_stream(span: "Span", error: BaseException | None) -> None:
    if failure := _end(span, error):
        span.blame_parent(failure)  # its status was already sent


def _end(span: "Span", error: BaseException | None) -> str | None:
    """End a call's span; returns its failure. A client that leaves is not a failure."""
    kind = kind_of_end(error)
    span.note({"call.end": kind})
    failure = None
    if kind not in ("success", "cancelled"):
        failure = error.message if isinstance(error, InferstreamError) else kind
    span.end(failure)
    return failure


class TracingContext(StageContext, Protocol):
    @property
    def tracer(self) -> "Tracer | None":
        """Makes spans; None without a collector in the settings."""


def tracing(model: StagedModel, shared: TracingContext) -> StagedModel:
    """Off without a collector in the settings."""
    tracer = shared.of(build_tracer)
    if tracer is None:
        return model
    facts = model.facet(TextFacts)
    named = None if facts is None else facts.operation
    gen_ai = None if named is None else GenAi(model.settings.name, named)
    handler = Tracing(model.handler, tracer, model.settings, gen_ai)
    return model.around(handler, refuse=None)  # refused calls must be traced too
