"""Triton's system shared memory: regions that clients register, and the tensors of requests in them."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..errors import AlreadyExists, InvalidRequest, NotFound, PayloadTooLarge
from ..protos.regions import OFFSET, REGION, SIZE
from ..settings import Settings
from ..types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
    TensorData,
    Unread,
)
from ..types.tensor import check_size
from .access import is_loopback
from .caller import Caller
from .checks import check_input
from .peers import KnownRegion, ListRegions, Peers, RegisterRegion, UnregisterRegions

Q = TypeVar("Q", RegisterRegion, UnregisterRegions)

SYSTEM_SHARED_MEMORY = "system_shared_memory"
"""The name of the extension."""

FOLDER = "/dev/shm"

MOST = 1024
"""Regions that may be registered at once."""

LONGEST = 255
"""Characters of a name or a key."""

INLINE = 64 * 1024
"""Bytes that are written on the event loop: a thread would cost more."""


def shares_memory(settings: Settings) -> bool:
    """Whether clients may register regions: others than those of this machine could only harm with them."""
    if settings.shared_memory is None:
        return is_loopback(settings.host) and os.path.isdir(FOLDER)
    return settings.shared_memory


class Region:
    """A file of shared memory. Calls that use it keep it open after it is unregistered.

    It is read and written as a file and never mapped: a mapped file that its owner shortens ends the process.
    """

    def __init__(self, known: KnownRegion) -> None:
        self.known = known
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            self._file = os.open(f"{FOLDER}/{known.key.removeprefix('/')}", flags)
        except OSError:
            raise InvalidRequest("There is no shared memory of this key that the server may open.") from None
        status = os.fstat(self._file)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidRequest("The key is not that of shared memory.")
        if known.offset + known.byte_size > status.st_size:
            raise InvalidRequest("The region ends behind the end of its shared memory.")

    def __del__(self) -> None:
        with suppress(AttributeError):
            os.close(self._file)

    def read(self, offset: int, memory: memoryview) -> None:
        """Fill `memory`. Raises InvalidRequest where the shared memory has become shorter."""
        done, at = 0, self.known.offset + offset
        while done < len(memory):
            count = os.preadv(self._file, [memory[done:]], at + done)
            if not count:
                raise InvalidRequest("The shared memory of a region is shorter than it was.")
            done += count

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes. Raises InvalidRequest where the shared memory has become shorter."""
        view = memoryview(data).cast("B")
        done, at = 0, self.known.offset + offset
        if at + len(view) > os.fstat(self._file).st_size:
            raise InvalidRequest("The shared memory of a region is shorter than it was.")
        try:
            while done < len(view):
                done += os.pwrite(self._file, view[done:], at + done)
        except OSError:  # pages that nobody has written to are made now, and the file system has no more
            raise InvalidRequest("The shared memory of a region cannot be written.") from None


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a region. It is what an arena of a worker copies from."""

    region: Region
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read_into(self, memory: memoryview) -> None:
        self.region.read(self.offset, memory)


class RegionData(TensorData):
    """The values of an input in a region.

    They are read when they are first asked for: by then the call has its slot, so slots bound the memory of many calls.
    A worker's go into its arena at once.
    """

    __slots__ = ("_bytes", "_name", "_place", "_unchecked_shape")

    def __init__(self, tensor: RequestInput, place: Place) -> None:
        self._bytes: memoryview | None = None
        self._place: Place | None = place
        self._name = tensor.name
        self._unchecked_shape: Sequence[int] | None = None
        """Where values are still to be checked, which nobody has read."""
        self._root = self._array = None
        self._raw_datatype = tensor.datatype
        self.checked, self.binary = True, False

    @property
    def _raw(self) -> memoryview | None:
        if self._place is not None:
            memory = np.empty(
                len(self._place), np.uint8
            ).data  # of a bytearray each byte would be written twice
            self._place.read_into(memory)
            self._bytes, self._place = memory, None
            if self._unchecked_shape is not None:
                shape = list(self._unchecked_shape)
                check_input(RequestInput.of(self._name, shape, self._raw_datatype, self, None))
        return self._bytes

    @_raw.setter
    def _raw(self, raw: memoryview | None) -> None:
        self._bytes, self._place = raw, None

    @property
    def is_raw(self) -> bool:
        return self._place is not None or self._bytes is not None

    def source(self, datatype: str) -> bytes | memoryview | Unread:
        """Where the values can be copied from."""
        if self._place is None or self._unchecked_shape is not None or datatype != self._raw_datatype:
            return self.to_raw(datatype)
        return self._place

    def check(self, datatype: str, shape: Sequence[int]) -> None:
        """Raise ValueError unless the number of bytes fits. Texts and booleans are checked when they are read."""
        if self._place is None:
            super().check(datatype, shape)
        elif datatype in ("BYTES", "BOOL"):
            self._unchecked_shape = shape
        else:
            check_size(self._place.size, datatype, shape if self.checked else None)


class Regions:
    """The regions of a server, in each of its front ends. Those of one principal are nobody else's."""

    def __init__(self, settings: Settings, peers: Peers) -> None:
        self.limit = settings.max_body_bytes
        """Bytes that the inputs of one request may have in regions."""
        self._peers = peers
        self._regions: dict[tuple[str, str], Region] = {}
        self._complete = peers.index == 0
        """Whether it has the regions from before this front end started."""
        peers.answers(RegisterRegion, self._registered)
        peers.answers(UnregisterRegions, self._unregistered)
        peers.answers(ListRegions, self._listed)

    async def register(
        self, name: str, key: object, offset: object, byte_size: object, caller: Caller
    ) -> None:
        """Open a region. Raises InvalidRequest, AlreadyExists."""
        key = _key(key)
        if not name or len(name) > LONGEST:
            raise InvalidRequest(f"A region needs a name of at most {LONGEST} characters.")
        start, size = _bytes("offset", offset), _bytes("byte_size", byte_size)
        known = KnownRegion(caller.principal or "", name, key, start, size)
        if await self._known(caller, name) is not None:
            raise AlreadyExists("A region of this name is registered already.")
        await self._spread(RegisterRegion(known), self._registered)

    async def unregister(self, name: str, caller: Caller) -> None:
        """Forget a region, or all of the caller's where `name` is empty. Calls in progress go on with it."""
        await self._spread(UnregisterRegions(caller.principal or "", name), self._unregistered)

    async def status(self, name: str, caller: Caller) -> list[dict[str, Any]]:
        """The caller's regions, or the one of this name. Raises NotFound."""
        if name:
            region = await self._known(caller, name)
            if region is None:
                raise NotFound("No region of this name is registered.")
            return [_described(region.known)]
        owner = caller.principal or ""
        if not self._complete:
            await self._learn(lambda _: True)
            self._complete = True
        return [_described(region.known) for (of, _), region in self._regions.items() if of == owner]

    async def place(self, parameters: Parameters, caller: Caller) -> Place:
        """The place that the parameters of a tensor name, which are taken away. Raises InvalidRequest."""
        extra = parameters.__pydantic_extra__ or {}
        name = extra.pop(REGION)
        size, offset = _bytes(SIZE, extra.pop(SIZE, None)), _bytes(OFFSET, extra.pop(OFFSET, 0))
        region = await self._known(caller, name) if isinstance(name, str) else None
        if region is None:
            raise InvalidRequest("No region of this name is registered.")
        if offset + size > region.known.byte_size:
            raise InvalidRequest(
                f"{offset} + {size} bytes are more than the {region.known.byte_size} of the region."
            )
        return Place(region, offset, size)

    async def _known(self, caller: Caller, name: str) -> Region | None:
        key = (caller.principal or "", name)
        if key not in self._regions:
            await self._learn(lambda known: (known.owner, known.name) == key)
        return self._regions.get(key)

    async def _learn(self, wanted: Callable[[KnownRegion], bool]) -> None:
        """Open what the supervisor knows and this front end, which may have started later, does not.

        Nothing that was not asked for: it may be forgotten while the answer is on its way.
        """
        if self._peers.index:
            for known in await self._peers.ask(0, ListRegions()):
                if wanted(known):
                    with suppress(InvalidRequest):
                        await self._registered(RegisterRegion(known))

    async def _spread(self, question: Q, answer: Callable[[Q], Awaitable[None]]) -> None:
        """Tell every front end, the supervisor first: it decides which of two is first, and is asked for all."""
        await self._peers.ask(0, question)
        if self._peers.index:
            await answer(question)
        await self._peers.ask_others(question)

    async def _registered(self, question: RegisterRegion) -> None:
        known = question.region
        there = self._regions.get((known.owner, known.name))
        if there is None:
            if len(self._regions) >= MOST:
                raise InvalidRequest(f"There are {MOST} regions already.")
            self._regions[known.owner, known.name] = Region(known)
        elif there.known != known:
            raise AlreadyExists("A region of this name is registered already.")

    async def _unregistered(self, question: UnregisterRegions) -> None:
        for owner, name in [*self._regions]:
            if owner == question.owner and question.name in ("", name):
                del self._regions[owner, name]

    async def _listed(self, _: ListRegions) -> list[KnownRegion]:
        return [region.known for region in self._regions.values()]


class RegionUse:
    """What one request has in regions."""

    def __init__(self, outputs: dict[str, Place]) -> None:
        self._outputs = outputs

    @classmethod
    async def of(cls, regions: Regions, request: InferenceRequest, caller: Caller) -> "RegionUse":
        """Let the request read its inputs that are in regions. Raises InvalidRequest, PayloadTooLarge."""
        inputs = [await _place(regions, tensor.parameters, caller) for tensor in request.inputs]
        outputs: dict[str, Place] = {}
        for output in request.outputs or ():
            if (place := await _place(regions, output.parameters, caller)) is not None:
                outputs[output.name] = place
        size = sum(place.size for place in inputs if place is not None)
        if size > regions.limit:
            raise PayloadTooLarge(
                f"Inputs of {size} bytes are more than the {regions.limit} of max_body_bytes."
            )
        for tensor, place in zip(request.inputs, inputs, strict=True):
            if place is not None:
                tensor.data = RegionData(tensor, place)
        return cls(outputs)

    async def store(self, response: InferenceResponse) -> InferenceResponse:
        """The response, whose outputs in regions are written there and have no values. Raises InvalidRequest."""
        if not self._outputs:
            return response
        raws = {
            tensor.name: tensor.data.to_raw(tensor.datatype)
            for tensor in response.outputs
            if tensor.name in self._outputs
        }
        for name, raw in raws.items():
            if len(raw) > (most := self._outputs[name].size):
                raise InvalidRequest(
                    f'output "{name}" has {len(raw)} bytes, and its place in the region {most}'
                )
        if sum(map(len, raws.values())) > INLINE:
            await asyncio.to_thread(self._write, raws)
        else:
            self._write(raws)
        outputs = [
            self._elsewhere(tensor, len(raws[tensor.name])) if tensor.name in raws else tensor
            for tensor in response.outputs
        ]
        return InferenceResponse.of(
            response.model_name, outputs, response.model_version, response.id, response.parameters
        )

    def _write(self, raws: dict[str, bytes | memoryview]) -> None:
        for name, raw in raws.items():
            place = self._outputs[name]
            place.region.write(place.offset, raw)

    def _elsewhere(self, tensor: ResponseOutput, size: int) -> ResponseOutput:
        """An output without values, which says where they are."""
        place = self._outputs[tensor.name]
        said = Parameters() if tensor.parameters is None else tensor.parameters
        where = {**(said.__pydantic_extra__ or {}), REGION: place.region.known.name, SIZE: size}
        if place.offset:
            where[OFFSET] = place.offset
        nothing = TensorData.from_raw(b"", tensor.datatype)
        told = Parameters.of(where, said.content_type)
        return ResponseOutput.of(tensor.name, tensor.shape, tensor.datatype, nothing, told)


async def _place(regions: Regions, parameters: Parameters | None, caller: Caller) -> Place | None:
    if parameters is None or REGION not in (parameters.__pydantic_extra__ or ()):
        return None
    return await regions.place(parameters, caller)


def _bytes(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidRequest(f'"{name}" must be a number of bytes, 0 or more')
    return value


def _key(key: object) -> str:
    """A key, which is the name of a file and no path. Raises InvalidRequest."""
    name = key.removeprefix("/") if isinstance(key, str) else ""
    if not 0 < len(name) <= LONGEST or "/" in name or "\0" in name or name in (".", ".."):
        raise InvalidRequest('"key" must be the name of shared memory, such as "/input"')
    assert isinstance(key, str)
    return key


def _described(known: KnownRegion) -> dict[str, Any]:
    return {"name": known.name, "key": known.key, "offset": known.offset, "byte_size": known.byte_size}
