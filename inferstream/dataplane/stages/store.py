"""The store of the response cache: copies of responses from all models, limited in size and age."""

from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from ...errors import InvalidOutput
from ...telemetry.stages import StoreMeters
from ...types import Headers, InferenceResponse, Parameters, ResponseOutput, TensorData

OVERHEAD = 512
"""Estimated size of a response without its tensors, and of a tensor without its values, in bytes."""

PER_VALUE = 40
"""Estimated size of a value in a list of Python objects, in bytes. The length of a string is added."""

CacheKey = tuple[int, bytes]
"""The number of the `Cache` that owns the entry, and the digest of the request."""

MAX_SHARE_DIVISOR = 4
"""An entry may use at most a quarter of the cache, so that it cannot evict all others."""


class Snapshot:
    """A copy of a response that shares no memory with the model. `size` is an estimate in bytes."""

    __slots__ = ("_name", "_outputs", "_parameters", "_version", "size")

    def __init__(self, response: InferenceResponse) -> None:
        self.size = OVERHEAD
        self._name, self._version = response.model_name, response.model_version
        self._parameters = _copy_parameters(response.parameters)
        self._outputs = [self._copy_output(tensor) for tensor in response.outputs]

    def _copy_output(self, tensor: ResponseOutput) -> Callable[[], ResponseOutput]:
        """Copy an output. Returns a function that recreates it."""
        name, datatype, shape = tensor.name, tensor.datatype, [*tensor.shape]
        parameters = _copy_parameters(tensor.parameters)
        values, size = _freeze(tensor.data, datatype)
        self.size += OVERHEAD + size
        return lambda: ResponseOutput.of(name, shape, datatype, values(), parameters)

    def response(self, id: str | None) -> InferenceResponse:
        outputs = [output() for output in self._outputs]
        return InferenceResponse.of(self._name, outputs, self._version, id, self._parameters)


def _copy_parameters(parameters: Parameters | None) -> Parameters | None:
    if parameters is None:
        return None
    headers = parameters.headers
    # Only headers that the model set. Headers of the request belong to its caller.
    own = None if headers is None or isinstance(headers, Headers) else dict(headers)
    return Parameters.of(deepcopy(parameters.__pydantic_extra__ or {}), parameters.content_type, own)


def _freeze(data: TensorData, datatype: str) -> tuple[Callable[[], TensorData], int]:
    """Copy the values of a tensor. Returns a function that recreates them, and their size in bytes."""
    array = data.array
    if not data.checked and (data.values is not None or array is None or array.dtype.kind not in "biuf"):
        fields = _copy_value(data.peek())
        return partial(TensorData, fields, checked=False), _weight(fields)
    if data.is_raw:
        raw = bytes(data.to_raw(datatype))
        return partial(TensorData.from_raw, raw, datatype, data.binary), len(raw)
    if datatype != "BYTES" and data.values is None:
        array = data.to_numpy(datatype).copy()
        return partial(TensorData, array), array.nbytes
    values = [*data.flat()]
    texts = sum(len(value) for value in values if value) if datatype == "BYTES" else 0
    return partial(TensorData, values, binary=data.binary), texts + PER_VALUE * len(values)


def _copy_value(value: Any) -> Any:
    """Copy values recursively. Raises InvalidOutput for an object that cannot be copied."""
    if isinstance(value, (list, tuple)):
        return [_copy_value(item) for item in value]
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    try:
        return deepcopy(value)
    except Exception as error:  # Model objects may raise anything.
        raise InvalidOutput(f"A response that holds a {type(value).__name__} cannot be cached.") from error


def _weight(value: Any) -> int:
    if isinstance(value, dict):
        return PER_VALUE + sum(map(_weight, value)) + sum(map(_weight, value.values()))
    if isinstance(value, (list, tuple)):
        return PER_VALUE + sum(map(_weight, value))
    return PER_VALUE + (len(value) if isinstance(value, (str, bytes)) else 0)


class CachedResponses(NamedTuple):
    """The responses to a request. `single` is False if they form a stream.

    `size` is in bytes. `until` is the time of expiry on the store's clock.
    """

    responses: list[Snapshot]
    single: bool
    size: int
    until: float


class Store:
    """An LRU cache with at most `entries` entries and `room` bytes in total.

    Recordings in progress also count. Entries expire after `seconds` on `clock`, unless a model sets another
    time.
    """

    def __init__(
        self, entries: int, room: int, seconds: float, clock: Callable[[], float], meters: StoreMeters
    ) -> None:
        self.seconds = seconds
        self._entries = entries
        self._room = room
        self._clock = clock
        self._meters = meters
        self._cached: OrderedDict[CacheKey, CachedResponses] = OrderedDict()

    @property
    def largest(self) -> int:
        return self._room // MAX_SHARE_DIVISOR

    def get(self, key: CacheKey) -> CachedResponses | None:
        entry = self._cached.get(key)
        if entry is None:
            return None
        if entry.until <= self._clock():
            self._drop(key)
            return None
        self._cached.move_to_end(key)
        return entry

    def reserve(self, size: int) -> bool:
        """Reserve space for a recording. Returns False if it does not fit even after evicting entries."""
        meters = self._meters
        while meters.bytes + size > self._room and self._cached:
            self._evict()
        if meters.bytes + size > self._room:
            return False
        meters.bytes += size
        return True

    def release(self, size: int) -> None:
        self._meters.bytes -= size

    def put(self, key: CacheKey, responses: list[Snapshot], single: bool, size: int, seconds: float) -> None:
        if key in self._cached:
            self._drop(key)
        while len(self._cached) >= self._entries:
            self._evict()
        self._cached[key] = CachedResponses(responses, single, size, self._clock() + seconds)
        self._meters.entries += 1

    def forget(self, owner: int) -> None:
        for key in [key for key in self._cached if key[0] == owner]:
            self._drop(key)

    def _evict(self) -> None:
        self._drop(next(iter(self._cached)))
        self._meters.evicted += 1

    def _drop(self, key: CacheKey) -> None:
        self.release(self._cached.pop(key).size)
        self._meters.entries -= 1
