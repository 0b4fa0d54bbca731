"""Metrics of calls, including rejected ones, and of executions if they differ from calls."""

from dataclasses import replace
from time import perf_counter

from ...telemetry.model_meters import ModelMeters
from ...telemetry.stages import ComputeMeters, TokenMeters
from ...tokens import read_usage
from ...types import InferenceResponse, Parameters
from ..call import Call, Handler
from ..facets import TextFacts
from ..reply import AtEnd, Reply, Watcher
from .base import Pipeline, Shared


class Metrics:
    """Measures calls as the client sees them."""

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
        except BaseException as error:  # Including cancellation.
            meters.in_flight -= 1
            meters.count_failure(error, perf_counter() - started)
            raise
        if reply.single:
            meters.in_flight -= 1
            meters.durations["success"].observe(perf_counter() - started)
            meters.waited += call.waited
            if self._tokens is not None:
                self._tokens.count_call(reply.parameters, None)
            return reply
        if self._tokens is None:
            return reply.watch(MeteredStream(meters, started, call.waited))
        return reply.watch(MeteredText(meters, started, call.waited, self._tokens))


class Tokens:
    """Counts the tokens of a text model.

    The model reports its output tokens. If it does not, and `item_is_token` is True, each response of a
    stream counts as one token.
    """

    def __init__(self, meters: TokenMeters, item_is_token: bool) -> None:
        self._meters = meters
        self._item_is_token = item_is_token

    def count_call(self, last: Parameters | None, items: int | None, first: Parameters | None = None) -> None:
        """Count the tokens of a call, from the parameters of its last and first response.

        `items` is the number of responses of a stream, or None for a single response.
        """
        usage = read_usage(last, first)
        written = usage.completion_tokens
        if written is None and self._item_is_token:
            written = items
        self._meters.count_tokens(usage.prompt_tokens, written)


class MeteredStream(Watcher):
    """Counts the responses of a stream, and measures the intervals between them."""

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
        seconds = perf_counter() - self._started
        if error is None:
            self._meters.durations["success"].observe(seconds)
            self._meters.waited += self._waited
        else:
            self._meters.count_failure(error, seconds)


class MeteredText(MeteredStream):
    """Measures a stream like `MeteredStream`, and counts its tokens."""

    __slots__ = ("_first", "_items", "_parameters", "_tokens")

    def __init__(self, meters: ModelMeters, started: float, waited: float, tokens: Tokens) -> None:
        super().__init__(meters, started, waited)
        self._tokens = tokens
        self._items = 0
        self._first: Parameters | None = None
        self._parameters: Parameters | None = None

    def item(self, response: InferenceResponse) -> None:
        now = perf_counter()  # Inlined from the base class, because the call would cost 80 ns per token.
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
        self._tokens.count_call(self._parameters, self._items, self._first)


def metrics(model: Pipeline, shared: Shared) -> Pipeline:
    facts = model.facet(TextFacts)
    if facts is None or not (facts.generates or facts.embeds):
        return replace(model, handler=Metrics(model.handler, model.meters))
    tokens = model.meters.of(TokenMeters)
    tokens.operation = facts.operation
    # A model that declares nothing may stream something other than text, so its items do not count as tokens.
    counted = Tokens(tokens, facts.makes_texts)
    return replace(model, handler=Metrics(model.handler, model.meters, counted))


class Compute:
    """Measures executions if they differ from calls: a batch is one execution, and a cached response is none.

    This is the innermost stage. It ignores failed executions. If `rows` is set, the first dimension of the
    first input is the number of rows.

    Other models do not have this stage, which costs about 1 µs per call. Each of their successful calls is
    one execution, which `Metrics` measures from the end of its time in the queue.
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
            self._meters.count_execution(rows, began)
            return reply

        def count_execution(error: BaseException | None) -> None:
            if error is None:
                self._meters.count_execution(rows, began)

        return reply.watch(AtEnd(count_execution))


def _rows(call: Call) -> int:
    inputs = call.request.inputs
    return inputs[0].shape[0] if inputs and inputs[0].shape else 1


def compute(model: Pipeline, shared: Shared) -> Pipeline:
    """Add the stage if executions differ from calls, or were already measured for this model."""
    settings, meters = model.settings, model.meters
    batches = settings.max_batch_size > 1
    if not (batches or settings.cache_enabled or meters.compute is not None):
        return model
    return replace(model, handler=Compute(model.handler, meters.count_executions_separately(), rows=batches))
