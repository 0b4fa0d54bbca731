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
from ...tls import load_certificates
from ..options import SOURCE, GrpcOptions, channel_arguments, name_receive_limit, parse_options
from ..rpc import Rpcs
from ..statuses import StatusCode
from .call import UnaryCall
from .head import CallHead, encode_trailers_only, is_grpc
from .streaming import StreamingCall

logger = logging.getLogger("inferstream.grpc")

LAST_WORDS = 1.0
"""Grace period in seconds for running calls when the port closes."""

UNKNOWN_RPC = encode_trailers_only(StatusCode.UNIMPLEMENTED, "Method not found!", ())
"""The response to an unknown RPC, with the message of grpc-core."""


class Calls:
    """Starts a call for each request on a port."""

    def __init__(self, rpcs: Rpcs, options: GrpcOptions) -> None:
        self._find = rpcs.find
        self._options = options

    def accept(self, stream: Stream, request: Request, end: bool) -> UnaryCall | StreamingCall | None:
        """Start a call, or respond immediately if the request is not a valid call."""
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
                    call.receive_data(b"", True)
            return call
        unary = UnaryCall(stream, head, rpc, self._options)
        if unary.begin():
            if end:
                unary.receive_data(b"", True)
            else:
                stream.expecting_since = stream.opened_at
        return unary

    def too_large(self, stream: Stream) -> None:
        """Respond to a request whose metadata is too large."""
        message = "The metadata is larger than allowed."
        stream.finish(encode_trailers_only(StatusCode.RESOURCE_EXHAUSTED, message, ()))


class NativePort:
    """The gRPC port. Raises InvalidSettings for an invalid option.

    If REST and gRPC share the port, `beside` accepts the requests that are not gRPC calls.
    """

    def __init__(
        self,
        rpcs: Rpcs,
        settings: Settings,
        beside: Accept | None = None,
        inflight: InflightBytes | None = None,
    ) -> None:
        custom = settings.custom_grpc_server_settings or {}
        options = parse_options(channel_arguments(settings), custom, name_receive_limit(settings))
        if inflight is not None:
            options = replace(options, inflight=inflight)
        named = load_certificates(custom, settings.model_repository_root, SOURCE)
        if beside is not None:
            named = None  # a shared port uses the certificate of REST
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
        self.guest = self._port.create_guest

    def bind(self, host: str, port: int) -> int:
        """Bind the port and return its number. Raises InvalidSettings if it is in use."""
        sock = self._sock = bind(host, port, "gRPC", shared=self._reused)
        if self._front_ends:
            share(sock)
        return int(sock.getsockname()[1])

    def join(self, host: str, port: int) -> int:
        """Bind a port that another front-end process has already bound, and return its number."""
        sock = self._sock = bind(host, port, "gRPC", shared=True)
        return int(sock.getsockname()[1])

    async def start(self) -> None:
        """Serve the bound port, or connections that another port accepts."""
        await self._port.start(self._sock)
        if self._certificates is not None:
            self._renewing = asyncio.create_task(self._certificates.watch(logger))

    def drain(self) -> None:
        """Stop accepting calls, and make clients reconnect elsewhere."""
        self._port.drain()

    async def stop(self) -> None:
        """Close the port. Running calls have `LAST_WORDS` seconds to complete."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await self._port.stop(LAST_WORDS)
        if self._sock is not None:
            self._sock.close()


def accept(calls: Calls, beside: Accept, stream: Stream, request: Request, end: bool) -> Receiver | None:
    """Start a gRPC call or a REST request, depending on the content type."""
    if isinstance(request.derived, CallHead) or (
        request.derived is None and is_grpc(dict(request.fields).get(b"content-type", b""))
    ):
        return calls.accept(stream, request, end)
    return beside(stream, request, end)
