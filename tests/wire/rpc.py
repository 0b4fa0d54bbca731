"""gRPC with bytes on both sides: nothing is parsed that is recorded."""

import queue
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc

from . import normal
from .http import Recorded

INFERENCE = "inference.GRPCInferenceService"
LEGACY = "inference.model_repository.ModelRepositoryService"
HEALTH = "grpc.health.v1.Health"


class Read(NamedTuple):
    """So many responses to wait for before the next request."""

    count: int


class Rpc(NamedTuple):
    """One call: a single request or, as a list, those of a stream, which the client then closes."""

    name: str
    method: str
    sent: bytes | list[bytes | Read]
    metadata: tuple[tuple[str, str], ...] = ()
    timeout: float = 30
    compression: grpc.Compression | None = None
    stop_after: int | None = None
    """Responses of a stream after which the client cancels."""
    details: bool = True
    """False where the library and not the server writes them, or where they hold numbers that vary."""
    unordered: bool = False
    """Whether the fields of the response may come in any order, as those of a map do."""
    while_open: bytes | None = None
    """A request whose stream has begun before and runs until after."""


def run(case: Rpc, channel: grpc.Channel) -> Recorded:
    """Make a call and record how it was answered."""
    if case.while_open is None:
        return _run(case, channel)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        method = channel.stream_stream(f"/{INFERENCE}/ModelStreamInfer")
        holder = method(iter([case.while_open]), metadata=[("x-stream-dialect", "mlserver")], timeout=60)
        try:
            next(holder)
        except grpc.RpcError:
            continue  # the last one's slot is not free yet
        try:
            return _run(case, channel)
        finally:
            holder.cancel()
    raise AssertionError("no stream has begun before")


def _run(case: Rpc, channel: grpc.Channel) -> Recorded:
    options = {"metadata": case.metadata, "timeout": case.timeout, "compression": case.compression}
    path = case.method if case.method.startswith("/") else f"/{INFERENCE}/{case.method}"
    found = []
    if isinstance(case.sent, bytes):
        call = channel.unary_unary(path).future(case.sent, **options)
        if call.exception() is None:
            found.append(call.result())
    else:
        requests = _Requests(case.sent)
        call = channel.stream_stream(path)(requests, **options)
        try:
            for message in call:
                found.append(message)
                requests.received(len(found))
                if len(found) == case.stop_after:
                    call.cancel()
        except grpc.RpcError:
            pass  # its status is recorded
        requests.received(10**6)
    return {
        "initial": _metadata(call.initial_metadata()),
        "messages": [normal.base64_of(_sorted(message) if case.unordered else message) for message in found],
        "status": call.code().name,
        "details": normal.text_of((call.details() or "").encode()) if case.details else "...",
        "trailing": _metadata(call.trailing_metadata()),
    }


def _metadata(found: Any) -> list[str]:
    return [normal.normal(f"{name}: {value}".encode()).decode() for name, value in found or ()]


class _Requests(Iterator[bytes]):
    """The requests of a stream, each sent when the responses before it are there."""

    def __init__(self, steps: list[bytes | Read]) -> None:
        self._steps = iter(steps)
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()

    def received(self, count: int) -> None:
        self._received.put(count)

    def __next__(self) -> bytes:
        step = next(self._steps)
        while isinstance(step, Read):
            while self._received.get() < step.count:
                pass
            step = next(self._steps)
        return step


def _sorted(message: bytes) -> bytes:
    """A message of fields with one byte of key and one of length, in order."""
    fields = []
    while message:
        end = 2 + message[1]
        fields.append(message[:end])
        message = message[end:]
    return b"".join(sorted(fields))
