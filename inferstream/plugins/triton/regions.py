"""Triton system shared memory: regions that clients register, and tensors in them."""

import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from inferstream import Settings
from inferstream.errors import AlreadyExists, InvalidRequest, NotFound, Unsupported
from inferstream.ext.calls import (
    Caller,
    MessagePart,
    PeerQuestion,
    Peers,
    ServerModels,
    ServerParts,
    StageContext,
)
from inferstream.types import Parameters

from .region_parameters import OFFSET, REGION, SIZE
from .settings import TritonSettings

SYSTEM_SHARED_MEMORY = "system_shared_memory"
"""The name of the extension."""

FOLDER = "/dev/shm"

MAX_REGIONS = 1024
"""Maximum number of registered regions."""

MAX_REGIONS_PER_CLIENT = MAX_REGIONS // 4
"""Maximum number of regions per authenticated principal."""

MAX_NAME_LENGTH = 255
"""Maximum length of a name or key in characters."""


SHORTER = "the shared memory of its region is shorter than it was"


def shares_memory(settings: Settings) -> bool:
    """Whether clients may register regions. By default, only if the server listens on loopback."""
    chosen = settings.section(TritonSettings).shared_memory
    if chosen is None:
        return settings.is_local and os.path.isdir(FOLDER)
    return chosen


def build_regions(parts: ServerParts) -> "Regions | None":
    """Return the regions of a server, or None if the settings disable them."""
    return Regions(parts.settings, parts.peers) if shares_memory(parts.settings) else None


def find_regions(server: ServerModels | StageContext) -> "Regions":
    """Return the regions of a server. Raises Unsupported if the settings disable them."""
    regions = server.of(build_regions)
    if regions is None:
        raise Unsupported(
            f'This server does not have the extension "{SYSTEM_SHARED_MEMORY}": it is on where the server listens on '
            "loopback, or by the setting shared_memory."
        )
    return regions


class KnownRegion(MessagePart):
    """A region of shared memory that a client has registered.

    `owner` is the client's principal, or empty if the client has none.
    """

    owner: str
    name: str
    key: str
    offset: int
    byte_size: int


class RegisterRegion(PeerQuestion[None]):
    region: KnownRegion


class UnregisterRegions(PeerQuestion[None]):
    """A message that unregisters a region, or all regions of the owner if `name` is empty."""

    owner: str
    name: str


class ListRegions(PeerQuestion[list[KnownRegion]]):
    """A message that requests all regions that a front end has open."""


Q = TypeVar("Q", RegisterRegion, UnregisterRegions)


class Region:
    """A shared memory file. Calls in progress keep it open after it is unregistered.

    It is read and written as a file and never mapped: if its owner truncated a mapped file, the process would
    crash.
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
        """Device and inode of the shared memory, which are the same for all its names."""

    def __del__(self) -> None:
        with suppress(AttributeError):
            os.close(self._file)

    def read(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes at `offset`. Raises ValueError if the region has been truncated."""
        done, at = 0, self.known.offset + offset
        while done < len(memory):
            count = os.preadv(self._file, [memory[done:]], at + done)
            if not count:
                raise ValueError(SHORTER)
            done += count

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write `data` at `offset`. Raises ValueError if the region has been truncated or is full."""
        view = memoryview(data).cast("B")
        done, at = 0, self.known.offset + offset
        if at + len(view) > os.fstat(self._file).st_size:
            raise ValueError(SHORTER)
        try:
            while done < len(view):
                done += os.pwrite(self._file, view[done:], at + done)
        except OSError:  # Pages are allocated on the first write, and the file system can be full.
            raise ValueError("the shared memory of its region cannot be written") from None


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a region that holds a tensor. Error messages contain the name `tensor`.

    Worker arenas can copy from it.
    """

    tensor: str
    region: Region
    offset: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read_into(self, memory: memoryview) -> None:
        """Fill `memory`. Raises InvalidRequest if the shared memory has been truncated."""
        try:
            self.region.read(self.offset, memory)
        except ValueError as error:
            raise InvalidRequest(f"{self.tensor}: {error}") from None

    def write(self, data: bytes | memoryview) -> None:
        """Write bytes. Raises InvalidRequest if the shared memory has been truncated or is full."""
        try:
            self.region.write(self.offset, data)
        except ValueError as error:
            raise InvalidRequest(f"{self.tensor}: {error}") from None


class Regions:
    """The registered regions of a server. All front ends have the same regions.

    Principals can use only the regions that they registered.
    """

    def __init__(self, settings: Settings, peers: Peers) -> None:
        self.limit = settings.max_body_bytes
        """Maximum total size in bytes of a request's inputs in regions."""
        self._peers = peers
        self._regions: dict[tuple[str, str], Region] = {}
        self._complete = peers.index == 0
        """Whether the regions that were registered before this front end started are included."""
        peers.answers(RegisterRegion, self._register)
        peers.answers(UnregisterRegions, self._unregister)
        peers.answers(ListRegions, self._list_regions)

    async def register(
        self, name: str, key: object, offset: object, byte_size: object, caller: Caller
    ) -> None:
        """Register a region in all front ends. Raises InvalidRequest or AlreadyExists."""
        key = _check_key(key)
        if not name or len(name) > MAX_NAME_LENGTH:
            raise InvalidRequest(f"A region needs a name of at most {MAX_NAME_LENGTH} characters.")
        start, size = _check_size("offset", offset), _check_size("byte_size", byte_size)
        known = KnownRegion(caller.principal or "", name, key, start, size)
        if await self._find_region(known.owner, name) is not None:
            raise AlreadyExists("A region of this name is registered already.")
        await self._broadcast(RegisterRegion(known), self._register)

    async def unregister(self, name: str, caller: Caller) -> None:
        """Unregister a region, or all of the caller's regions if `name` is empty.

        Calls in progress can still use it.
        """
        await self._broadcast(UnregisterRegions(caller.principal or "", name), self._unregister)

    async def status(self, name: str, caller: Caller) -> list[dict[str, Any]]:
        """Describe the caller's regions, or only the region with this name. Raises NotFound."""
        owner = caller.principal or ""
        if name:
            region = await self._find_region(owner, name)
            if region is None:
                raise NotFound("No region of this name is registered.")
            return [_region_document(region.known)]
        if not self._complete:
            await self._open_earlier(lambda _: True)
            self._complete = True
        return [_region_document(region.known) for (of, _), region in self._regions.items() if of == owner]

    async def resolve_place(self, tensor: str, parameters: Parameters, owner: str) -> Place:
        """Resolve the location in a tensor's parameters, and remove it from them. Raises InvalidRequest."""
        extra = parameters.__pydantic_extra__ or {}
        name = extra.pop(REGION)
        try:
            size, offset = _check_size(SIZE, extra.pop(SIZE, None)), _check_size(OFFSET, extra.pop(OFFSET, 0))
        except InvalidRequest as error:
            raise InvalidRequest(f"{tensor}: {error.message}") from None
        region = await self._find_region(owner, name) if isinstance(name, str) else None
        if region is None:
            raise InvalidRequest(f"{tensor}: no region of this name is registered")
        if offset + size > (most := region.known.byte_size):
            raise InvalidRequest(f"{tensor}: {offset} + {size} bytes are more than the {most} of the region")
        return Place(tensor, region, offset, size)

    async def _find_region(self, owner: str, name: str) -> Region | None:
        key = (owner, name)
        if key not in self._regions:
            await self._open_earlier(lambda known: (known.owner, known.name) == key)
        return self._regions.get(key)

    async def _open_earlier(self, wanted: Callable[[KnownRegion], bool]) -> None:
        """Open regions that were registered before this front end started.

        Opens only `wanted` regions, because others may be unregistered while the supervisor responds.
        """
        if self._peers.index:
            for known in await self._peers.ask(0, ListRegions()):
                if wanted(known):
                    with suppress(InvalidRequest):
                        await self._register(RegisterRegion(known))

    async def _broadcast(self, question: Q, answer: Callable[[Q], Awaitable[None]]) -> None:
        """Send a message to every front end.

        The supervisor receives it first, because it resolves conflicts and has the complete list.
        """
        await self._peers.ask(0, question)
        if self._peers.index:
            await answer(question)
        await self._peers.ask_others(question)

    async def _register(self, question: RegisterRegion) -> None:
        known = question.region
        there = self._regions.get((known.owner, known.name))
        if there is None:
            if len(self._regions) >= MAX_REGIONS:
                raise InvalidRequest(f"There are {MAX_REGIONS} regions already.")
            if known.owner and sum(of == known.owner for of, _ in self._regions) >= MAX_REGIONS_PER_CLIENT:
                raise InvalidRequest(f"There are {MAX_REGIONS_PER_CLIENT} regions of this principal already.")
            region = Region(known)
            for (owner, _), other in self._regions.items():
                if owner != known.owner and other.memory == region.memory:
                    raise InvalidRequest("The shared memory of this key belongs to another principal.")
            self._regions[known.owner, known.name] = region
        elif there.known != known:
            raise AlreadyExists("A region of this name is registered already.")

    async def _unregister(self, question: UnregisterRegions) -> None:
        for owner, name in [*self._regions]:
            if owner == question.owner and question.name in ("", name):
                del self._regions[owner, name]

    async def _list_regions(self, _: ListRegions) -> list[KnownRegion]:
        return [region.known for region in self._regions.values()]


def _check_size(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidRequest(f'"{name}" must be a number of bytes, 0 or more')
    return value


def _check_key(key: object) -> str:
    """Validate a key, which must be a file name and not a path. Raises InvalidRequest."""
    name = key.removeprefix("/") if isinstance(key, str) else ""
    if not 0 < len(name) <= MAX_NAME_LENGTH or "/" in name or "\0" in name or name in (".", ".."):
        raise InvalidRequest('"key" must be the name of shared memory, such as "/input"')
    assert isinstance(key, str)
    return key


def _region_document(known: KnownRegion) -> dict[str, Any]:
    return {"name": known.name, "key": known.key, "offset": known.offset, "byte_size": known.byte_size}
