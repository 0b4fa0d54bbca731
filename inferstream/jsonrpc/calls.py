"""The calls of one body of JSON-RPC: a single one, or those of a batch, each with an answer of its own."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from inferstream.errors import InferstreamError
from inferstream.ext.calls import Admission, Operation, Reply
from inferstream.ext.http import JSON_HEADER, GatherLimit, ParsedRequest, RawHeaders, dump_json
from inferstream.ext.values import array_as_object
from inferstream.plugins.agents.joined_items import JoinedItems
from inferstream.types import InferenceRequest, InferenceResponse

from . import messages

AT_ONCE = 64
"""Calls of one batch that run or wait in queues at the same time."""


class JsonResults(Protocol):
    """Makes one JSON value of a response, as `InferenceResponse.accept` asks it to."""

    def tensors(self, response: InferenceResponse) -> Any: ...

    def value(self, form: Any, response: InferenceResponse) -> Any: ...


Write = Callable[[JsonResults, InferenceResponse], bytes]
"""Writes the result of a response as JSON."""


class Ready(NamedTuple):
    """A request that its model can be asked, and what makes JSON of the responses."""

    admission: Admission
    request: InferenceRequest
    results: JsonResults


@dataclass(slots=True, eq=False)
class Prepared:
    """One request of a body, and later its answer."""

    id: str | int | float | None
    wanted: bool
    """Whether the client wants an answer; it wants none to a notification."""
    ready: Ready | None = None
    """None if there is no such model, or the request is wrong."""
    answer: bytes = b""
    failure: InferstreamError | None = None

    @property
    def is_refused(self) -> bool:
        """Whether its caller is refused."""
        return self.failure is not None and self.failure.refuses_caller

    def failed(self, error: InferstreamError) -> None:
        self.failure = error
        self.answer = messages.error_document(self.id, error)


Running = list[tuple[Prepared, Ready]]


class AllAnswered(InferstreamError):
    """A body none of whose requests reaches a model, or all of whose calls are refused; `body` is the response.

    Each of them is in the logs.

    `refusal` is the error if all refuse the caller, so that proxies and clients see its HTTP status.
    """

    told = True

    def __init__(self, prepared: Sequence[Prepared], batch: bool) -> None:
        failures = [each.failure for each in prepared]
        first = failures[0]
        super().__init__("" if first is None else first.message)
        if first is not None:
            self.code = first.code
        self.body = body_of(prepared, batch)
        self.refusal = first if all(each.is_refused for each in prepared) else None


class RpcRequest(ParsedRequest):
    """The requests of a body, at least one of which has an admission."""

    __slots__ = ("_batch", "_limit", "_prepared", "_running", "_write")

    compressible = True

    def __init__(
        self, prepared: Sequence[Prepared], running: Running, batch: bool, limit: int, write: Write
    ) -> None:
        _, first = running[0]
        self.admission = first.admission
        self.request = first.request
        self.operation = Operation.INFER
        self._prepared = prepared
        self._running = running
        self._batch = batch
        self._limit = GatherLimit(limit)
        self._write = write

    async def open(self) -> Reply:
        """Run all calls to their ends. Failures are answers."""
        if not self._batch:
            await self._run(*self._running[0])
        else:
            await self._run_all()
        if all(each.is_refused for each in self._prepared):
            raise AllAnswered(self._prepared, self._batch)
        return Reply(NOTHING)

    async def _run_all(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        self.admission.caller.task = None  # each call has a task of its own

        async def run(prepared: Prepared, ready: Ready) -> None:
            async with slots:
                await self._run(prepared, ready)

        async with asyncio.TaskGroup() as group:
            for each in self._running:
                group.create_task(run(*each))

    async def _run(self, prepared: Prepared, ready: Ready) -> None:
        single = ready.admission.predicts
        # The server holds the items until all calls have ended; a single result leaves at once.
        items = JoinedItems(self._limit)
        result = b""

        def take(response: InferenceResponse) -> None:
            nonlocal result
            result = self._write(ready.results, response)
            if self._batch or not single:
                items.add(result)

        try:
            await ask(ready.admission, ready.request, take)
            if not single:
                result = items.list_document()
            prepared.answer = messages.result_document(prepared.id, result)
        except Exception as error:
            prepared.failed(self.wrap_error(error))

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON_HEADER], body_of(self._prepared, self._batch)


NOTHING = InferenceResponse.of("", [])
"""Stands for the responses of the models, which the answers hold."""


async def ask(
    admission: Admission, request: InferenceRequest, take: Callable[[InferenceResponse], None]
) -> None:
    """Give `take` the response of a model, or each item of one that only streams."""
    if admission.predicts:
        reply = await admission.open(Operation.INFER, request)
        assert reply.first is not None
        take(reply.first)
        return
    async with await admission.open(Operation.STREAM, request) as reply:
        await reply.for_each(take)


def body_of(prepared: Sequence[Prepared], batch: bool) -> bytes:
    """The body of a response: empty if every request is a notification."""
    answers = [each.answer for each in prepared if each.wanted]
    if not answers:
        return b""
    return messages.list_document(answers) if batch else answers[0]


def written(results: JsonResults, response: InferenceResponse) -> bytes:
    """A result, arrays as nested lists."""
    form = response.form
    names = [tensor.name for tensor in response.outputs] if form is None else [form.name]
    return dump_json(response.accept(results), names[0] if len(names) == 1 else None)


def written_with_objects(results: JsonResults, response: InferenceResponse) -> bytes:
    """A result, arrays as objects with their numbers in base64."""
    result = response.accept(results)
    if isinstance(result, dict):
        return dump_json({name: _object(value) for name, value in result.items()})
    return dump_json(_object(result))


def _object(value: Any) -> Any:
    return array_as_object(value) if isinstance(value, np.ndarray) else value
