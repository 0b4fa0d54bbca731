"""The stage that creates a span for each call, as the parent of the spans of model code."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from inferstream import ModelSettings
from inferstream.errors import InferstreamError
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
from inferstream.types import InferenceRequest, Parameters

from .gen_ai import choose_names, model_attributes
from .tracer import build_tracer

if TYPE_CHECKING:
    from .tracing import Span, Tracer


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
"""Span attributes and types of request parameters."""


class GenAi:
    """The generative AI attributes of one model's calls."""

    def __init__(self, model: str, operation: str) -> None:
        self._fixed = model_attributes(model, operation)
        names = choose_names()
        self.marks_first_chunk = names.new
        self.span_name = None if names.old else f"{operation} {model}"

    def request_attributes(self, call: Call) -> Values:
        """Return the attributes of a call at its start."""
        values: Values = {**self._fixed, "gen_ai.request.stream": call.operation is Operation.STREAM}
        for name, value in _parameters(call.request).items():
            attribute, kind = REQUESTED[name]
            if isinstance(value, int | float):
                values[attribute] = kind(value)
        return values


def describe_usage(responses: Reply | LastParameters, items: int | None) -> Values:
    """Return the token usage attributes of a call. `items` is the number of responses of a stream."""
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
    """Return the sampling parameters of a request, from its parameters and from inputs with one value."""
    said = None if request.parameters is None else request.parameters.__pydantic_extra__
    sampling = {name: value for name, value in (said or {}).items() if name in REQUESTED}
    for tensor in request.inputs:
        if tensor.name in REQUESTED:
            values = tensor.data.flat()
            if len(values) == 1:
                sampling[tensor.name] = values[0]
    return sampling


class Tracing:
    """Creates a span for each call. It is the outermost stage, and workers receive the span with the call."""

    def __init__(
        self, inner: Handler, tracer: "Tracer", settings: ModelSettings, gen_ai: GenAi | None
    ) -> None:
        self._inner = inner
        self._tracer = tracer
        self._name = settings.name
        self._gen_ai = gen_ai
        self._values = {"model.name": settings.name, "model.version": settings.version or ""}

    async def __call__(self, call: Call) -> Reply:
        started = perf_counter()
        values: dict[str, Any] = {**self._values, "request.id": call.request.id or ""}
        gen_ai = self._gen_ai
        name = f"{call.operation.value} {self._name}"
        if gen_ai is not None:
            values |= gen_ai.request_attributes(call)
            name = gen_ai.span_name or name
        span = self._tracer.start_call_span(name, values)
        call.trace = span.carrier()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # Cancelled calls have also ended.
            _end(span, started, None, error)
            raise
        queued = call.waited + call.batch_wait
        if reply.single:
            if gen_ai is not None:
                span.note(describe_usage(reply, None))
            _end(span, started, queued, None)
            return reply
        if reply.first is not None:
            span.add_event("first response")
            span.note_latencies(_describe_first(perf_counter() - started, gen_ai))
        end = partial(_end_stream, span, started, queued)
        return reply.watch(AtEnd(end) if gen_ai is None else TracedText(span, reply.parameters, end))


class TracedText(LastParameters):
    """Closes the span of a stream of tokens."""

    __slots__ = ("_end", "_span")

    def __init__(
        self, span: "Span", first: Parameters | None, end: Callable[[BaseException | None], None]
    ) -> None:
        super().__init__(first)
        self._span = span
        self._end = end

    def end(self, error: BaseException | None) -> None:
        self._span.note(describe_usage(self, self.items))
        self._end(error)


def _describe_first(seconds: float, gen_ai: GenAi | None) -> Values:
    values: Values = {"gen_ai.latency.time_to_first_token": seconds}
    if gen_ai is not None and gen_ai.marks_first_chunk:
        values["gen_ai.response.time_to_first_chunk"] = seconds
    return values


def _end_stream(span: "Span", started: float, queued: float, error: BaseException | None) -> None:
    if failure := _end(span, started, queued, error):
        span.blame_parent(failure)  # The status was already sent.


def _end(span: "Span", started: float, queued: float | None, error: BaseException | None) -> str | None:
    """End the span of a call and return its failure. A disconnect is not a failure.

    The latencies have the names of vLLM and SGLang, and are in seconds. `queued` includes the wait for a batch.
    It is None if the call failed before its first response, because it may not have reached the model.
    """
    kind, seconds = kind_of_end(error), perf_counter() - started
    values: Values = {"gen_ai.latency.e2e": seconds}
    if queued is not None:
        values["gen_ai.latency.time_in_queue"] = queued
        # The event loop's clock, which measures the queue, is less precise.
        values["gen_ai.latency.time_in_model_inference"] = max(seconds - queued, 0.0)
    span.note({"call.end": kind})
    span.note_latencies(values)
    failure = None
    if kind not in ("success", "cancelled"):
        failure = error.message if isinstance(error, InferstreamError) else kind
    span.end(failure)
    return failure


class TracingContext(StageContext, Protocol):
    @property
    def tracer(self) -> "Tracer | None":
        """The tracer, or None if the settings name no collector."""


def tracing(model: StagedModel, shared: TracingContext) -> StagedModel:
    """Trace a model's calls, if the settings name a collector."""
    tracer = shared.of(build_tracer)
    if tracer is None:
        return model
    facts = model.facet(TextFacts)
    named = None if facts is None else facts.operation
    gen_ai = None if named is None else GenAi(model.settings.name, named)
    handler = Tracing(model.handler, tracer, model.settings, gen_ai)
    return model.around(handler, refuse=None)  # Rejected calls must also be traced.
