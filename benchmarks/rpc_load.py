"""Load over gRPC by the cheap client: callers with one call at a time, and streams at a pace."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from inferstream.protos.dataplane_pb2 import ModelInferRequest

from .http2 import Connection
from .load import ARRAY, TOKENS, observe


class Calls(NamedTuple):
    """Calls of one kind, each with so many messages for a response."""

    method: str
    request: ModelInferRequest
    messages: int
    expected: bytes
    """What the frames of each response have in them."""


class Callers(Connection):
    """So many callers with one call at a time, until a point in time."""

    def __init__(self, calls: Calls, callers: int, until: float, changing: bool) -> None:
        super().__init__(calls.method, calls.request, changing)
        self._calls = calls
        self._callers = callers
        self._until = until
        self._counts: dict[int, int] = {}
        self.units = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        for _ in range(self._callers):
            self._counts[self.call()] = 0
        self.flush()

    def received(self, stream: int, messages: int, data: bytes) -> None:
        self._counts[stream] += messages
        if self._calls.expected not in data:
            self._fail(f"a response without {self._calls.expected!r}: {data!r}")

    def ended(self, stream: int) -> None:
        found = self._counts.pop(stream)
        if found != self._calls.messages:
            self._fail(f"a call ended with {found} messages")
        self.units += found
        if time.perf_counter() < self._until:
            self._counts[self.call()] = 0
        elif not self._counts and not self.done.done():
            self.done.set_result(None)


class Paced(Connection):
    """So many streams that never end; notes when their messages come."""

    def __init__(self, request: ModelInferRequest, streams: int, gaps: list[float]) -> None:
        super().__init__("ModelStreamInfer", request)
        self._number = streams
        self._gaps = gaps
        self._last: dict[int, float] = {}
        self.events = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        for _ in range(self._number):
            self.call()
        self.flush()

    def received(self, stream: int, messages: int, data: bytes) -> None:
        if messages:
            now, last = time.perf_counter(), self._last.get(stream)
            if last is not None:
                self._gaps.append(now - last)
            self._last[stream] = now
            self.events += messages

    def ended(self, stream: int) -> None:
        self._fail("a stream ended")


def message(model: str, **tensor: object) -> ModelInferRequest:
    return ModelInferRequest(model_name=model, id="0", inputs=[tensor])


PROMPT = {"name": "prompt", "shape": [1], "datatype": "BYTES", "contents": {"bytes_contents": [b"hello"]}}
SMALL = message("doubler", name="x", shape=[1, 4], datatype="FP32", contents={"fp32_contents": ARRAY["data"]})
INFER = Calls("ModelInfer", SMALL, 1, b"\x00\x00\x40\x40")  # 3.0
STREAM = Calls("ModelStreamInfer", message("tokens", **PROMPT), TOKENS, b" token")


async def run_calls(
    port: int, calls: Calls, connections: int, callers: int, seconds: float, changing: bool = False
) -> int:
    """How many messages came to so many callers, which share so many connections."""
    until = time.perf_counter() + seconds
    opened = await _open(port, connections, lambda: Callers(calls, callers // connections, until, changing))
    try:
        await asyncio.gather(*(each.done for each in opened))
    finally:
        for each in opened:
            each.close()
    return sum(each.units for each in opened)


STREAMS_OF_CONNECTION = 50


async def paced(port: int, streams: int, seconds: float) -> tuple[float, list[float]]:
    """Messages a second of so many streams that make one every 10 ms, and the gaps between them in seconds."""
    gaps: list[float] = []
    request, shared = message("paced", **PROMPT), STREAMS_OF_CONNECTION
    opened = await _open(port, streams // shared, lambda: Paced(request, shared, gaps))
    try:
        return await observe(opened, gaps, seconds)
    finally:
        for each in opened:
            if each.done.done():
                each.done.result()
            each.close()


Kind = TypeVar("Kind", bound=Connection)


async def _open(port: int, connections: int, make: Callable[[], Kind]) -> list[Kind]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(make, "127.0.0.1", port))[1] for _ in range(connections)]
