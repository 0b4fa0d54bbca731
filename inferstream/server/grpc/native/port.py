"""The gRPC port."""

import asyncio
import logging
import socket
from dataclasses import replace
from functools import partial

from ....concurrency.inflight import InflightBytes
from ....settings import Settings
from ...http2.port import Http2Port
from ...http2.request import Request
from ...http2.stream import Accept, Receiver, Stream
from ...ports import bind, share
from ...tls import certificates
from ..options import SOURCE, GrpcOptions, channel_arguments, limiting, options_of
from ..rpc import Rpcs
from ..statuses import StatusCode
from .call import UnaryCall
from .head import CallHead, failed_at_once, is_grpc
from .streaming import StreamingCall

logger = logging.getLogger("inferstream.grpc")

LAST_WORDS = 1.0
"""Seconds that calls in progress have to end when the port closes."""

UNKNOWN_RPC = failed_at_once(StatusCode.UNIMPLEMENTED, "Method not found!", ())
"""The response to a call of an unknown RPC, in the words of grpc-core."""


class Calls:
    """Begins a call for each request of a port."""

    def __init__(self, rpcs: Rpcs, options: GrpcOptions) -> None:
        self._find = rpcs.find
        self._options = options

    def accept(self, stream: Stream, request: Request, end: bool) -> UnaryCall | StreamingCall | None:
        """Begin the call of a request, or respond to one that is no call."""
        head = request.derived
        if head is None:
            head = request.derived = CallHead(request)
        if head.refusal is not None:
            stream.finish(head.refusal)
            return None
        rpc = self._find(head.path)
        if rpc is None:
            stream.finish(UNKNOWN_RPC)
            return None
        if rpc.client_streams or rpc.server_streams:
            call = StreamingCall(stream, head, rpc, self._options)
            if call.begin():
                call.start()
                if end:
                    call.received(b"", True)
            return call
        unary = UnaryCall(stream, head, rpc, self._options)
        if unary.begin():
            if end:
                unary.received(b"", True)
            else:
                stream.expecting_since = stream.opened_at
        return unary

    def too_large(self, stream: Stream) -> None:
        """Respond to a request with too much metadata."""
        message = "The metadata is larger than allowed."
        stream.finish(failed_at_once(StatusCode.RESOURCE_EXHAUSTED, message, ()))


class NativePort:
    """One gRPC port. Raises InvalidSettings.

    `beside` begins the requests that are no calls, where the port of HTTP/1 is that of gRPC too.
    """

    def __init__(
        self,
        rpcs: Rpcs,
        settings: Settings,
        beside: Accept | None = None,
        inflight: InflightBytes | None = None,
    ) -> None:
        custom = settings.custom_grpc_server_settings or {}
        options = options_of(channel_arguments(settings), custom, limiting(settings))
        if inflight is not None:
            options = replace(options, inflight=inflight)
        named = certificates(custom, settings.model_repository_root, SOURCE)
        if beside is not None:
            named = None  # a port has one certificate, that of REST
        self._certificates = named
        self._front_ends = settings.frontends > 1
        self._reused = options.reuse_port and not self._front_ends
        self._sock: socket.socket | None = None
        self._renewing: asyncio.Task[None] | None = None
        calls = Calls(rpcs, options)
        self._port = Http2Port(
            calls.accept if beside is None else partial(accept, calls, beside),
            calls.too_large,
            replace(
                options,
                preface_timeout=settings.header_timeout,
                header_timeout=settings.header_timeout,
                body_timeout=settings.body_timeout,
                stall_timeout=settings.stream_stall_timeout,
            ),
            max_connections=settings.max_connections,
            context=None if named is None else named.context,
        )
        self.guest = self._port.guest

    def bind(self, host: str, port: int) -> int:
        """Bind the port and return its number. Raises InvalidSettings if it is in use."""
        sock = self._sock = bind(host, port, "gRPC", shared=self._reused)
        if self._front_ends:
            share(sock)
        return int(sock.getsockname()[1])

    def join(self, host: str, port: int) -> int:
        """Bind a port that another front end has bound for all, and return its number."""
        sock = self._sock = bind(host, port, "gRPC", shared=True)
        return int(sock.getsockname()[1])

    async def start(self) -> None:
        """Serve at the port that is bound, or connections that another port accepts."""
        await self._port.start(self._sock)
        if self._certificates is not None:
            self._renewing = asyncio.create_task(self._certificates.keep_renewed(logger))

    def drain(self) -> None:
        """Accept no further calls, and tell clients to make theirs elsewhere."""
        self._port.drain()

    async def stop(self) -> None:
        """Close the port; calls in progress have a second to end."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await self._port.stop(LAST_WORDS)
        if self._sock is not None:
            self._sock.close()


def accept(calls: Calls, beside: Accept, stream: Stream, request: Request, end: bool) -> Receiver | None:
    """Begin a call, or a request of REST: a call is what has the content type of gRPC."""
    if isinstance(request.derived, CallHead) or (
        request.derived is None and is_grpc(dict(request.fields).get(b"content-type", b""))
    ):
        return calls.accept(stream, request, end)
    return beside(stream, request, end)
