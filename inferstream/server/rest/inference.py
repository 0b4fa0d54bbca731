"""The inference routes of V2, MLServer and Triton's generate, as one plain ASGI application.

They stand in front of FastAPI because its routing and response machinery costs three times what the
rest of a small request does; nothing else is gained or lost by it.
"""

import asyncio
from typing import Any, NamedTuple

from ...dataplane.call import Call, Operation
from ...dataplane.dataplane import DataPlane
from ...dataplane.reply import Reply
from ...protos import json_requests
from ...protos.generate import dump_flat, is_v2, parse_flat
from ...protos.json_responses import dump_response
from ...settings import Settings
from ...types import Headers, InferenceRequest, InferenceResponse
from .events import EventStream, flat_failure, v2_failure
from .messages import (
    JSON,
    ClientLeft,
    Head,
    Receive,
    Scope,
    Send,
    accepted,
    answer,
    answer_error,
    compress,
    read_body,
    wrap,
)
from .transport import SCOPE_KEY

DIALECT = b"x-stream-dialect"
BINARY = (b"content-type", b"application/octet-stream")

NOT_FOR_MODELS = frozenset(
    (b"connection", b"content-encoding", b"content-length", b"content-type", b"transfer-encoding", b"upgrade")
)
"""Headers that describe the message itself; a model that sets one would break the connection."""


class Asked(NamedTuple):
    """A request as the client meant it, and how it wants the answer."""

    request: InferenceRequest
    wish: json_requests.Wish | None
    flat: bool
    named: bool
    """Whether the client gave an id; Triton's dialect echoes no other."""


class InferenceDoor:
    """`infer`, `generate`, `infer_stream` and `generate_stream` of every model."""

    def __init__(self, dataplane: DataPlane, settings: Settings) -> None:
        self._dataplane = dataplane
        self._limit = settings.max_body_bytes
        self._profile = settings.status_profile
        self._compress_from = settings.gzip_min_bytes if settings.gzip_enabled else None
        self._direct = settings.cors_settings is None  # else a middleware has headers to add
        self._heartbeat = settings.sse_heartbeat
        self._stall = settings.stream_stall_timeout
        self.actions = {
            "infer": (Operation.INFER, False),
            "generate": (Operation.INFER, True),
            "infer_stream": (Operation.STREAM, False),
            "generate_stream": (Operation.STREAM, True),
        }

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, action: str, name: str, version: str | None
    ) -> int:
        """Serve one request; returns the HTTP status it was answered with."""
        operation, either = self.actions[action]
        raw_headers = scope["headers"]
        try:
            head = Head(raw_headers)
            exchange = scope.get(SCOPE_KEY)
            body = None if exchange is None else exchange.body()
            body = await read_body(head, body, receive, self._limit)
            asked = self._parse(head, body, name, version, raw_headers if either else None)
            limit = head.seconds()
            deadline = None if limit is None else asyncio.get_running_loop().time() + limit
            task = None if exchange is None else exchange.connection.task
            call = Call(
                operation, name, version, asked.request, Headers(raw_headers), deadline=deadline, task=task
            )
            async with await self._dataplane.open(call) as reply:
                if operation is Operation.STREAM:
                    await self._stream(scope, send, reply, asked)
                else:
                    assert reply.first is not None
                    await self._answer(scope, send, reply.first, asked, head)
                return 200
        except ClientLeft:
            return 499
        except Exception as error:
            return await answer_error(send, wrap(error), self._profile)

    def _parse(
        self,
        head: Head,
        body: bytes,
        name: str,
        version: str | None,
        dialect: list[tuple[bytes, bytes]] | None,
    ) -> Asked:
        """`dialect` holds the headers on the routes that two dialects share, and is None on V2's own."""
        length = head.header_length(len(body))
        if length == 0:
            inputs = self._dataplane.declared_inputs(name, version)
            return Asked(*json_requests.raw_request(memoryview(body), inputs), False, False)
        text = body if length is None else body[:length]
        tail = None if length is None else memoryview(body)[length:]
        document = json_requests.load(text)
        if dialect is not None and length is None:
            inputs = self._dataplane.declared_inputs(name, version)
            forced = next((value for key, value in dialect if key == DIALECT), b"")
            if forced == b"triton" or (forced != b"v2" and not is_v2(document, inputs)):
                json_requests.refuse_duplicate_keys(text, None)
                request = parse_flat(document, inputs)
                return Asked(request, None, True, request.id is not None)
        request, wish = json_requests.build_request(document, text, tail)
        return Asked(request, wish, False, False)

    async def _stream(self, scope: Scope, send: Send, reply: Reply, asked: Asked) -> None:
        stream = EventStream(send, scope, self._heartbeat, self._stall)
        if asked.flat:
            await stream.run(reply, lambda response: dump_flat(response, asked.named), flat_failure)
        else:
            await stream.run(reply, _dump_event, v2_failure(asked.request.id))

    async def _answer(
        self, scope: Scope, send: Send, response: InferenceResponse, asked: Asked, head: Head
    ) -> None:
        if asked.flat:
            await answer(send, 200, dump_flat(response, asked.named), [JSON])
            return
        text, blobs = dump_response(response, asked.wish)
        headers = [JSON]
        if blobs:
            headers = [BINARY, (b"inference-header-content-length", b"%d" % len(text))]
            text = b"".join((text, *blobs))
        if response.parameters is not None and response.parameters.headers is not None:
            headers += _model_headers(response.parameters.headers)
        if (
            self._compress_from is not None
            and head.accept_encoding
            and len(text) >= self._compress_from
            and (encoding := accepted(head.accept_encoding)) is not None
        ):
            text = await compress(text, encoding)
            headers.append((b"content-encoding", encoding))
        exchange = scope.get(SCOPE_KEY) if self._direct else None
        if exchange is None or not exchange.answer(200, headers, text):
            await answer(send, 200, text, headers)


def _model_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Headers a model has set on its response; the request's own, echoed, are not among them."""
    if isinstance(headers, Headers):
        return []
    found = []
    for name, value in headers.items():
        key = str(name).lower().encode("latin-1", "replace")
        text = str(value)
        if key not in NOT_FOR_MODELS and text.isprintable() and key.replace(b"-", b"").isalnum():
            found.append((key, text.encode("latin-1", "replace")))
    return found


def _dump_event(response: InferenceResponse) -> bytes:
    return dump_response(response)[0]
