"""Triton's system shared memory: regions that clients register, and the tensors of requests in them."""

import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from inferstream import Settings
from inferstream.ext.calls import (
    Caller,
    MessagePart,
    PeerQuestion,
    Peers,
    ServerModels,
    ServerParts,
    StageContext,
)
from inferstream.plugins.triton.settings import TritonSettings

from ..errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from ..protos.regions import OFFSET, REGION, SIZE
from ..types import Parameters

SYSTEM_SHARED_MEMORY = "system_shared_memory"
"""The name of the extension."""

FOLDER = "/dev/shm"

MOST = 1024
"""Regions that may be registered at once."""

MOST_OF_ONE = MOST // 4
"""Regions of one principal, with keys."""

LONGEST = 255
"""Characters of a name or a key."""


SHORTER = "the shared memory of its region is shorter than it was"


def shares_memory(settings: Settings) -> bool:
    """Whether clients may register regions: others than those of this machine could only harm with them."""
    chosen = settings.section(TritonSettings).shared_memory
    if chosen is None:
        return settings.is_local and os.path.isdir(FOLDER)
    return chosen


def build_regions(parts: ServerParts) -> "Regions | None":
    """The regions of a server; None where the settings turn them off."""
    return Regions(parts.settings, parts.peers) if shares_memory(parts.settings) else None


def find_regions(server: ServerModels | StageContext) -> "Regions":
    """The regions of a server. Raises Unsupported where the settings turn them off."""
    regions = server.of(build_regions)
    if regions is None:
        raise Unsupported(
            f'This server does not have the extension "{SYSTEM_SHARED_MEMORY}": it is on where the server listens on '
            "loopback, or by the setting shared_memory."
        )
    return regions


class KnownRegion(MessagePart):
    """A region of shared memory that a client has registered. `owner` is its principal; empty without keys."""

    owner: str
    name: str
    key: str
    offset: int
    byte_size: int


class RegisterRegion(PeerQuestion[None]):
    region: KnownRegion


class UnregisterRegions(PeerQuestion[None]):
    """Forget the region of this name, or all of the owner's where `name` is empty."""

    owner: str
    name: str


class ListRegions(PeerQuestion[list[KnownRegion]]):
    """The answer is every region that the front end has open."""


Q = TypeVar("Q", RegisterRegion, UnregisterRegions)


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
        self.memory = status.st_dev, status.st_ino
        """Device and inode of the shared memory, the same for each of its names."""

    def __del__(self) -> None:
        with suppress(AttributeError):
            os.close(self._file)

    def read(self, offset: int, memory: memoryview) -> None:
        """Fill `memory`. Raises ValueError where the shared memory has become shorter."""
        done, at = 0, self.known.offset + offset
        while done < len(memory):
            count = os.preadv(self._file, [memory[done:]], at + done)
            if not count:
                raise ValueError(SHORTER)
            done += count

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes. Raises ValueError where the shared memory has become shorter."""
        view = memoryview(data).cast("B")
        done, at = 0, self.known.offset + offset
        if at + len(view) > os.fstat(self._file).st_size:
            raise ValueError(SHORTER)
        try:
            while done < len(view):
                done += os.pwrite(self._file, view[done:], at + done)
        except OSError:  # pages that nobody has written to are made now, and the file system has no more
            raise ValueError("the shared memory of its region cannot be written") from None


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a region for `tensor`, as errors call it. It is what an arena of a worker copies from."""

    tensor: str
    region: Region
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read_into(self, memory: memoryview) -> None:
        """Fill `memory`. Raises InvalidRequest where the shared memory has become shorter."""
        try:
            self.region.read(self.offset, memory)
        except ValueError as error:
            raise InvalidRequest(f"{self.tensor}: {error}") from None

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes. Raises InvalidRequest where the shared memory has become shorter, or is full."""
        try:
            self.region.write(self.offset, data)
        except ValueError as error:
            raise InvalidRequest(f"{self.tensor}: {error}") from None


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
        if await self._known(known.owner, name) is not None:
            raise AlreadyExists("A region of this name is registered already.")
        await self._spread(RegisterRegion(known), self._registered)

    async def unregister(self, name: str, caller: Caller) -> None:
        """Forget a region, or all of the caller's where `name` is empty. Calls in progress go on with it."""
        await self._spread(UnregisterRegions(caller.principal or "", name), self._unregistered)

    async def status(self, name: str, caller: Caller) -> list[dict[str, Any]]:
        """The caller's regions, or the one of this name. Raises NotFound."""
        owner = caller.principal or ""
        if name:
            region = await self._known(owner, name)
            if region is None:
                raise NotFound("No region of this name is registered.")
            return [_described(region.known)]
        if not self._complete:
            await self._learn(lambda _: True)
            self._complete = True
        return [_described(region.known) for (of, _), region in self._regions.items() if of == owner]

    async def place(self, tensor: str, parameters: Parameters, owner: str) -> Place:
        """The place that the parameters of a tensor name, which are taken away. Raises InvalidRequest."""
        extra = parameters.__pydantic_extra__ or {}
        name = extra.pop(REGION)
        try:
            size, offset = _bytes(SIZE, extra.pop(SIZE, None)), _bytes(OFFSET, extra.pop(OFFSET, 0))
        except InvalidRequest as error:
            raise InvalidRequest(f"{tensor}: {error.message}") from None
        region = await self._known(owner, name) if isinstance(name, str) else None
        if region is None:
            raise InvalidRequest(f"{tensor}: no region of this name is registered")
        if offset + size > (most := region.known.byte_size):
            raise InvalidRequest(f"{tensor}: {offset} + {size} bytes are more than the {most} of the region")
        return Place(tensor, region, offset, size)

    async def _known(self, owner: str, name: str) -> Region | None:
        key = (owner, name)
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
            if known.owner and sum(of == known.owner for of, _ in self._regions) >= MOST_OF_ONE:
                raise InvalidRequest(f"There are {MOST_OF_ONE} regions of this principal already.")
            region = Region(known)
            for (owner, _), other in self._regions.items():
                if owner != known.owner and other.memory == region.memory:
                    raise InvalidRequest("The shared memory of this key belongs to another principal.")
            self._regions[known.owner, known.name] = region
        elif there.known != known:
            raise AlreadyExists("A region of this name is registered already.")

    async def _unregistered(self, question: UnregisterRegions) -> None:
        for owner, name in [*self._regions]:
            if owner == question.owner and question.name in ("", name):
                del self._regions[owner, name]

    async def _listed(self, _: ListRegions) -> list[KnownRegion]:
        return [region.known for region in self._regions.values()]


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
