"""Counts every call and its end, refusals included, and executions where they differ from calls."""

from dataclasses import replace
from time import perf_counter

from ...telemetry.ends import kind_of_end
from ...telemetry.model_meters import ModelMeters
from ...telemetry.stages import ComputeMeters, TokenMeters
from ...tokens import usage_of
from ...types import InferenceResponse, Parameters
from ..call import Call, Handler
from ..facets import TextFacts
from ..reply import AtEnd, Reply, Watcher
from .base import Pipeline, Shared


class Metrics:
    """The outermost stage, which sees what the client sees."""

    def __init__(self, inner: Handler, meters: ModelMeters, tokens: "Tokens | None" = None) -> None:
        self._inner = inner
        self._meters = meters
        self._tokens = tokens

    async def __call__(self, call: Call) -> Reply:
        meters = self._meters
        started = meters.last = perf_counter()
        meters.in_flight += 1
        try:
            reply = await self._inner(call)
        except BaseException as error:  # a cancelled call has ended too
            meters.in_flight -= 1
            meters.durations[kind_of_end(error)].observe(perf_counter() - started)
            raise
        if reply.single:
            meters.in_flight -= 1
            meters.durations["success"].observe(perf_counter() - started)
            meters.waited += call.waited
            if self._tokens is not None:
                self._tokens.ended(reply.parameters, None)
            return reply
        if self._tokens is None:
            return reply.watch(MeteredStream(meters, started, call.waited))
        return reply.watch(MeteredText(meters, started, call.waited, self._tokens))


class Tokens:
    """Counts the tokens of a model of text.

    Output tokens are the model's own count. Where it gives none, each response of a stream is one, if `item_is_token`.
    """

    def __init__(self, meters: TokenMeters, item_is_token: bool) -> None:
        self._meters = meters
        self._item_is_token = item_is_token

    def ended(self, last: Parameters | None, items: int | None, first: Parameters | None = None) -> None:
        """Count a call by the parameters of its last and first response, and the number of responses in its stream."""
        usage = usage_of(last, first)
        written = usage.completion_tokens
        if written is None and self._item_is_token:
            written = items
        self._meters.used(usage.prompt_tokens, written)


class MeteredStream(Watcher):
    """Counts the responses of one stream, and the seconds between them."""

    __slots__ = ("_last", "_meters", "_started", "_streams", "_waited")

    def __init__(self, meters: ModelMeters, started: float, waited: float) -> None:
        self._meters = meters
        self._waited = waited
        self._streams = meters.streams
        self._started = started
        self._last = 0.0

    def item(self, response: InferenceResponse) -> None:
        now = perf_counter()
        streams = self._streams
        streams.items += 1
        if self._last:
            streams.gaps.observe(now - self._last)
        else:
            streams.first.observe(now - self._started)
        self._last = now

    def end(self, error: BaseException | None) -> None:
        self._meters.in_flight -= 1
        self._meters.durations[kind_of_end(error)].observe(perf_counter() - self._started)
        if error is None:
            self._meters.waited += self._waited


class MeteredText(MeteredStream):
    """Counts the tokens of a stream of text too."""

    __slots__ = ("_first", "_items", "_parameters", "_tokens")

    def __init__(self, meters: ModelMeters, started: float, waited: float, tokens: Tokens) -> None:
        super().__init__(meters, started, waited)
        self._tokens = tokens
        self._items = 0
        self._first: Parameters | None = None
        self._parameters: Parameters | None = None

    def item(self, response: InferenceResponse) -> None:
        now = perf_counter()  # as in the base, whose call would cost 80 ns a token
        streams = self._streams
        streams.items += 1
        if self._last:
            streams.gaps.observe(now - self._last)
        else:
            streams.first.observe(now - self._started)
            self._first = response.parameters
        self._last = now
        self._items += 1
        self._parameters = response.parameters

    def end(self, error: BaseException | None) -> None:
        MeteredStream.end(self, error)
        self._tokens.ended(self._parameters, self._items, self._first)


def metrics(model: Pipeline, shared: Shared) -> Pipeline:
    facts = model.facet(TextFacts)
    if facts is None or not (facts.generates or facts.embeds):
        return replace(model, handler=Metrics(model.handler, model.meters))
    tokens = model.meters.of(TokenMeters)
    tokens.operation = facts.operation
    # A model that declares nothing may stream other things than texts, and its items are no tokens.
    counted = Tokens(tokens, facts.makes_texts)
    return replace(model, handler=Metrics(model.handler, model.meters, counted))


class Compute:
    """Measures executions where they differ from calls: a batch is one execution, a cached response none.

    The innermost stage, which omits failed executions. With `rows`, the first input's first dimension gives the rows.
    For other models each successful call is one execution, from its turn on, and `Metrics` counts it: another stage
    around each of them would cost about 1 µs.
    """

    def __init__(self, inner: Handler, meters: ComputeMeters, rows: bool) -> None:
        self._inner = inner
        self._meters = meters
        self._rows = rows

    async def __call__(self, call: Call) -> Reply:
        began = perf_counter()
        rows = _rows(call) if self._rows else 1
        reply = await self._inner(call)
        if reply.single:
            self._meters.executed(rows, began)
            return reply

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._meters.executed(rows, began)

        return reply.watch(AtEnd(ended))


def _rows(call: Call) -> int:
    inputs = call.request.inputs
    return inputs[0].shape[0] if inputs and inputs[0].shape else 1


def compute(model: Pipeline, shared: Shared) -> Pipeline:
    """On where executions differ from calls, and where they have been counted apart before."""
    settings, meters = model.settings, model.meters
    batches = settings.max_batch_size > 1
    if not (batches or settings.cache_enabled or meters.compute is not None):
        return model
    return replace(model, handler=Compute(model.handler, meters.computing(), rows=batches))
