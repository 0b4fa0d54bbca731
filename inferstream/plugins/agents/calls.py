"""The calls in a JSON-RPC body: a single request or a batch, with one response per request."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from inferstream.errors import InferstreamError
from inferstream.ext.calls import Admission, Operation, Reply
from inferstream.ext.http import JSON_HEADER, GatherLimit, ParsedRequest, RawHeaders, dump_json
from inferstream.ext.values import array_as_object
from inferstream.types import InferenceRequest, InferenceResponse

from . import messages
from .joined_items import JoinedItems

AT_ONCE = 64
"""Maximum number of calls of one batch in progress, including calls that wait for their model."""


class JsonResults(Protocol):
    """Converts a response to a single JSON value. Passed to `InferenceResponse.accept`."""

    def tensors(self, response: InferenceResponse) -> Any: ...

    def value(self, form: Any, response: InferenceResponse) -> Any: ...


Write = Callable[[JsonResults, InferenceResponse], bytes]
"""Encodes the result of a response as JSON."""


class Ready(NamedTuple):
    """A request that can be sent to its model, and the converter of its responses."""

    admission: Admission
    request: InferenceRequest
    results: JsonResults


@dataclass(slots=True, eq=False)
class Prepared:
    """One request in a JSON-RPC body. It also holds the response, once there is one."""

    id: str | int | float | None
    wanted: bool
    """Whether the client expects a response. False for notifications."""
    ready: Ready | None = None
    """None if the request is invalid or was not admitted to a model."""
    answer: bytes = b""
    failure: InferstreamError | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the caller was rejected."""
        return self.failure is not None and self.failure.refuses_caller

    def fail(self, error: InferstreamError) -> None:
        self.failure = error
        self.answer = messages.error_document(self.id, error)


Running = list[tuple[Prepared, Ready]]


class AllAnswered(InferstreamError):
    """Raised if no request in a body reached a model, or if all were rejected because of the caller.

    `body` is the complete response. Each failure was already logged. If every failure rejects the caller,
    `refusal` is the first error, so that proxies and clients receive its HTTP status.
    """

    told = True

    def __init__(self, prepared: Sequence[Prepared], batch: bool) -> None:
        failures = [each.failure for each in prepared]
        first = failures[0]
        super().__init__("" if first is None else first.message)
        if first is not None:
            self.code = first.code
        self.body = write_body(prepared, batch)
        self.refusal = first if all(each.is_refused for each in prepared) else None


class RpcRequest(ParsedRequest):
    """The JSON-RPC requests in one HTTP body. At least one was admitted to a model."""

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
        """Run all calls to completion. Failures become error responses."""
        if not self._batch:
            await self._run(*self._running[0])
        else:
            await self._run_all()
        if all(each.is_refused for each in self._prepared):
            raise AllAnswered(self._prepared, self._batch)
        return Reply(NOTHING)

    async def _run_all(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        self.admission.caller.task = None  # Each call runs in a separate task.

        async def run(prepared: Prepared, ready: Ready) -> None:
            async with slots:
                await self._run(prepared, ready)

        async with asyncio.TaskGroup() as group:
            for each in self._running:
                group.create_task(run(*each))

    async def _run(self, prepared: Prepared, ready: Ready) -> None:
        single = ready.admission.predicts
        # Buffered results of batches and streams count towards the limit. A single result does not.
        items = JoinedItems(self._limit)
        result = b""

        def take(response: InferenceResponse) -> None:
            nonlocal result
            result = self._write(ready.results, response)
            if self._batch or not single:
                items.add(result)

        try:
            await run_call(ready.admission, ready.request, take)
            if not single:
                result = items.list_document()
            prepared.answer = messages.result_document(prepared.id, result)
        except Exception as error:
            prepared.fail(self.wrap_error(error))

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON_HEADER], write_body(self._prepared, self._batch)


NOTHING = InferenceResponse.of("", [])
"""A placeholder for the models' responses, which are in the JSON-RPC responses."""


async def run_call(
    admission: Admission, request: InferenceRequest, take: Callable[[InferenceResponse], None]
) -> None:
    """Run a call and pass its response to `take`, or each item if the model only streams."""
    if admission.predicts:
        reply = await admission.open(Operation.INFER, request)
        assert reply.first is not None
        take(reply.first)
        return
    async with await admission.open(Operation.STREAM, request) as reply:
        await reply.for_each(take)


def write_body(prepared: Sequence[Prepared], batch: bool) -> bytes:
    """Return the body of the response. Empty if all requests are notifications."""
    answers = [each.answer for each in prepared if each.wanted]
    if not answers:
        return b""
    return messages.list_document(answers) if batch else answers[0]


def encode_result(results: JsonResults, response: InferenceResponse) -> bytes:
    """Encode a result, with arrays as nested lists."""
    form = response.form
    names = [tensor.name for tensor in response.outputs] if form is None else [form.name]
    return dump_json(response.accept(results), names[0] if len(names) == 1 else None)


def encode_result_with_objects(results: JsonResults, response: InferenceResponse) -> bytes:
    """Encode a result, with arrays as objects that contain their data in base64."""
    result = response.accept(results)
    if isinstance(result, dict):
        return dump_json({name: _encode_array(value) for name, value in result.items()})
    return dump_json(_encode_array(result))


def _encode_array(value: Any) -> Any:
    return array_as_object(value) if isinstance(value, np.ndarray) else value
