"""The response cache, which also deduplicates equal concurrent requests."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import count, islice
from math import inf
from time import monotonic
from typing import Any

from ...errors import InferenceFailed, Overloaded
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...telemetry.stages import CacheMeters, StoreMeters
from ...types import Headers, InferenceRequest, InferenceResponse, RequestInput
from ..call import Call, Handler, Operation
from ..reply import Reply, StreamReply
from .base import Pipeline, Shared
from .flight import Flight
from .live import Deadline, Live, default_time_limit, time_limit
from .merging import EACH_ITS_OWN, UNENCODABLE, canonical, copy_parameters, parameters_key
from .store import CachedResponses, CacheKey, Snapshot, Store

HASH_IN_THREAD = 2**20
"""Input size in bytes above which a request is hashed in a thread."""

CANCELLED = InferenceFailed("The computation of this request was cancelled.")
"""The error if a computation is cancelled by anything other than its last caller."""

_owners = count(1)


class Cache:
    """Caches the responses of one loaded model for `seconds`. Bidirectional streams are not cached.

    Equal requests share a running computation, up to `most` callers. It is cancelled when the last caller
    leaves. The model's time limit applies to the computation, and each caller keeps a separate deadline.
    """

    def __init__(
        self,
        inner: Handler,
        store: Store,
        seconds: float,
        most: int,
        meters: CacheMeters,
        apart: bool = False,
    ) -> None:
        """`apart` is whether each principal has a separate cache."""
        self._apart = apart
        self._inner = inner
        self._most = most
        self._store = store
        self._seconds = seconds
        self._meters = meters
        self._owner = next(_owners)
        self._flights: dict[CacheKey, Flight] = {}

    def __call__(self, call: Call) -> Awaitable[Reply]:
        return self._inner(call) if call.more is not None else self._lookup(call)

    def clear(self) -> None:
        self._store.forget(self._owner)

    async def _lookup(self, call: Call) -> Reply:
        digest = await _digest(call.operation, call.request, call.principal if self._apart else None)
        if digest is None:
            return await self._inner(call)
        key = (self._owner, digest)
        known = self._store.get(key)
        if known is not None:
            self._meters.hits += 1
            return _replay(known, call.request.id)
        flight = self._flights.get(key)
        if flight is not None and flight.retained:
            if flight.readers >= self._most:
                raise Overloaded(
                    f"Model {call.model} is overloaded: {self._most} calls wait for this very answer already."
                )
            self._meters.joined += 1
        else:
            self._meters.misses += 1
            flight = self._start(key, call)
        try:
            return await flight.reply(call.request.id)
        except BaseException:  # Cancelled, possibly by the deadline.
            flight.call.expired = call.expired
            raise

    def _start(self, key: CacheKey, call: Call) -> Flight:
        request = _strip_caller(call.request)
        shared = Call(call.operation, call.model, call.version, request, {}, priority=call.priority)
        shared.dialect, shared.principal = call.dialect, call.principal
        if hasattr(call, "values"):
            shared.values = call.values
        shared.trace = call.trace  # The computation belongs to the span of its first caller.
        flight = self._flights[key] = Flight(self._store, shared)
        flight.task = asyncio.get_running_loop().create_task(self._run(flight, shared))
        flight.task.add_done_callback(partial(self._finish_flight, key, flight))
        return flight

    async def _run(self, flight: Flight, call: Call) -> None:
        async with await self._inner(call) as reply:
            if reply.single:
                assert reply.first is not None
                flight.single = True
                flight.add(reply.first)
                return
            async for response in reply:
                flight.add(response)
                await flight.wait_for_reader()

    def _finish_flight(self, key: CacheKey, flight: Flight, task: asyncio.Task[None]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        error = CANCELLED if task.cancelled() else task.exception()
        if error is not None:
            flight.give_up()
        elif flight.retained:
            self._store.put(key, flight.responses, flight.single, flight.size, self._seconds)
        flight.end(error)


async def _digest(operation: Operation, request: InferenceRequest, principal: str | None) -> bytes | None:
    """Compute a digest of a principal's request, ignoring ids, headers and time limits.

    Equal requests have equal digests. Returns None if the request cannot be compared.
    """
    outputs = request.outputs or ()
    try:
        head = [
            operation.value,
            principal,
            parameters_key(request.parameters, EACH_ITS_OWN),
            [(output.name, parameters_key(output.parameters)) for output in outputs],
            [_description(each) for each in request.inputs],
        ]
        parts = [canonical(head), *map(_values, request.inputs)]
    except UNENCODABLE:
        return None
    if sum(map(len, parts)) > HASH_IN_THREAD:
        return await asyncio.to_thread(_hash, parts)
    return _hash(parts)


def _description(tensor: RequestInput) -> tuple[Any, ...]:
    """Describe a tensor without its values.

    For unchecked data, includes whether the values are Python objects or bytes.
    """
    fields = (tensor.name, tensor.datatype, tensor.shape, parameters_key(tensor.parameters))
    return fields if tensor.data.checked else (*fields, tensor.data.values is not None)


def _values(tensor: RequestInput) -> bytes | memoryview:
    """Return the values of a tensor as bytes. Distinguishes None and empty strings in lists."""
    data = tensor.data
    if not data.checked and data.values is not None:
        return canonical(data.values)
    return canonical(data.peek()) if tensor.datatype == "BYTES" else data.to_raw(tensor.datatype)


def _hash(parts: list[bytes | memoryview]) -> bytes:
    digest = blake2b(digest_size=32)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _strip_caller(request: InferenceRequest) -> InferenceRequest:
    """Copy a request without the headers, priority and time limit of its caller."""
    parameters = copy_parameters(request.parameters, Headers(()), EACH_ITS_OWN)
    return InferenceRequest.of(request.inputs, request.id, parameters, request.outputs)


def _replay(entry: CachedResponses, request_id: str | None) -> Reply:
    first = entry.responses[0].response(request_id) if entry.responses else None
    return Reply(first) if entry.single else StreamReply(first, _rest(entry.responses, request_id))


async def _rest(responses: list[Snapshot], request_id: str | None) -> AsyncGenerator[InferenceResponse]:
    for snapshot in islice(responses, 1, None):
        yield snapshot.response(request_id)


def create_store(settings: Settings, meters: Meters) -> Store:
    """Create the store of the response cache."""
    seconds = inf if settings.cache_ttl is None else settings.cache_ttl
    store_meters = StoreMeters()
    meters.show(CacheMeters, store_meters)
    return Store(settings.cache_size, settings.cache_max_bytes, seconds, monotonic, store_meters)


def add_cache(model: Pipeline, store: Store, shared: Shared) -> Pipeline:
    """Add the response cache, and an inner time limit for computations."""
    settings = model.settings
    inner = model.handler
    limit = time_limit(settings, shared.settings)
    default = default_time_limit(settings, shared.settings)
    if limit is not None or default:
        # A computation may outlive the caller that started it.
        inner = Live(Deadline(inner, limit), default)
    seconds = settings.cache_ttl or store.seconds
    most = model.slots.count + settings.max_queue
    cache = Cache(inner, store, seconds, most, model.meters.of(CacheMeters), not shared.shares_responses)
    at_retirement = (*model.at_retirement, cache.clear)
    # Cached responses bypass the queue.
    return replace(model, handler=cache, form=None, refuse=None, at_retirement=at_retirement)
