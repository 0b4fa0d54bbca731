"""A client of the service of gRPC's interoperability cases."""

import queue
from collections.abc import Iterator

import grpc
import pytest

from .interop import SERVICE


class Client:
    """The RPCs of the service on a channel, as bytes."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.empty = channel.unary_unary(f"/{SERVICE}/Empty")
        self.unary = channel.unary_unary(f"/{SERVICE}/Unary")
        self.input = channel.stream_unary(f"/{SERVICE}/Input")
        self.output = channel.unary_stream(f"/{SERVICE}/Output")
        self.duplex = channel.stream_stream(f"/{SERVICE}/Duplex")
        self.early = channel.stream_stream(f"/{SERVICE}/Early")


class Requests:
    """Requests that a test sends one by one, until it half-closes."""

    def __init__(self, *first: bytes) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        for each in first:
            self._queue.put(each)

    def send(self, message: bytes) -> None:
        self._queue.put(message)

    def end(self) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._queue.get, None)


def fails(call: object, code: grpc.StatusCode, details: str | None = None) -> grpc.RpcError:
    """The error of a call that fails with this status."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is code, caught.value
    if details is not None:
        assert caught.value.details() == details
    return caught.value
