"""gRPC-Web as an ASGI application, served on the HTTP port together with REST."""

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import cast

import orjson

from ....concurrency.scope import ClientLeft, is_own_cancel
from ....errors import InferstreamError, Unsupported
from ....settings import Settings
from ...status import Profile
from ..metadata import Header, Metadata
from ..options import MESSAGE_SETTING
from ..rpc import RpcFailed, Rpcs
from ..statuses import StatusCode, grpc_status
from .call import Receive, Scope, Send, WebCall, WebLimits

MEDIA_TYPES = frozenset(
    (
        b"application/grpc-web",
        b"application/grpc-web+proto",
        b"application/grpc-web-text",
        b"application/grpc-web-text+proto",
    )
)

ALLOWED_HEADERS = ("content-type", "grpc-timeout", "x-grpc-web", "x-user-agent")
"""Headers of gRPC-Web clients that pages from other origins may send."""

EXPOSED_HEADERS = ("grpc-message", "grpc-status", "grpc-status-details-bin", "retry-after")
"""Response headers that pages from other origins may read."""

_PATH = re.compile(r"/[\w.]*\.\w+/\w+")

CheckOrigin = Callable[[Iterable[Header]], None]
"""Raises PermissionDenied if a page from an origin that is not allowed has sent the request."""


class GrpcWeb:
    """Serves RPCs to gRPC-Web clients: unary RPCs, and streams whose requests are all in the body."""

    allowed_headers = ALLOWED_HEADERS
    exposed_headers = EXPOSED_HEADERS

    def __init__(self, rpcs: Rpcs, limits: WebLimits, profile: Profile, check_origin: CheckOrigin) -> None:
        self._rpcs = rpcs
        self._limits = limits
        self._profile = profile
        self._check_origin = check_origin

    def claims(self, scope: Scope) -> bool:
        """Whether a request has a gRPC-Web media type or the path of an RPC."""
        if _media_type(scope).startswith(b"application/grpc-web"):
            return True
        path = cast(str, scope["path"])
        return _PATH.fullmatch(path) is not None and self._rpcs.find(path) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        media = _media_type(scope)
        if scope["method"] != "POST":
            await _refuse(send, 405, "An RPC takes POST.", (b"allow", b"POST"))
        elif media not in MEDIA_TYPES:
            known = ", ".join(sorted(name.decode() for name in MEDIA_TYPES))
            await _refuse(send, 415, f"The content type of an RPC over this port is one of {known}.")
        else:
            call = WebCall(scope, receive, send, self._limits, media)
            try:
                await call.end(*await self._serve(call))
            except ClientLeft:
                pass
            except BaseException as error:
                if not (call.left and is_own_cancel(error)):
                    raise
            finally:
                call.close()

    async def _serve(self, call: WebCall) -> tuple[StatusCode, str, Metadata]:
        try:
            self._check_origin(call.headers)
            call.begin(asyncio.get_running_loop().time())
            async with asyncio.timeout_at(call.deadline):
                if (rpc := self._rpcs.find(call.path)) is None:
                    raise Unsupported(f'There is no RPC "{call.path}".')
                await call.receive()
                if rpc.client_streams or rpc.server_streams:
                    await rpc.serve(None, call)
                else:
                    response = await rpc.serve(call.take_only_message(), call)
                    assert response is not None
                    call.respond(response)
        except RpcFailed as failed:
            return failed.code, failed.message, failed.trailing
        except InferstreamError as error:
            return *grpc_status(error, self._profile), ()
        except TimeoutError:
            return StatusCode.DEADLINE_EXCEEDED, "The deadline of the call has passed.", ()
        return StatusCode.OK, "", ()


def build_web(rpcs: Rpcs, settings: Settings, check_origin: CheckOrigin) -> GrpcWeb | None:
    """Return the gRPC-Web endpoint, or None if the settings disable it."""
    if not settings.grpc_web:
        return None
    largest = settings.grpc_max_message_length
    received = largest or settings.max_body_bytes
    limits = WebLimits(
        received, largest, settings.stream_stall_timeout, MESSAGE_SETTING if largest else "max_body_bytes"
    )
    return GrpcWeb(rpcs, limits, settings.status_profile, check_origin)


def _media_type(scope: Scope) -> bytes:
    media = b""
    for name, value in cast("list[Header]", scope["headers"]):
        if name == b"content-type":
            media = value
    return media.partition(b";")[0].strip().lower()


async def _refuse(send: Send, status: int, message: str, *headers: Header) -> None:
    body = orjson.dumps({"error": message})
    whole = [*headers, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": whole})
    await send({"type": "http.response.body", "body": body})
