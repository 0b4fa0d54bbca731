"""Bidirectional streams over a WebSocket."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from ..errors import CallFailed, ConnectionFailed, InvalidRequest
from ..protos.dialects import FINAL_RESPONSE as FINAL
from ..protos.json_client import build_response, dump_request
from ..protos.json_requests import load
from ..protos.websocket import LENGTH
from ..types import InferenceRequest, InferenceResponse
from .failures import build_invalid_response_error, http_error, parse_stream_error, unreachable
from .feeding import feeding
from .transport import OutgoingCall, Target, build_unverified_context

ID = "1"
"""The id of the request, the only one on its connection."""


async def converse(target: Target, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
    """Yield the responses to a call while its later requests are sent. Raises CallFailed."""
    socket = await _connect(target, call)
    ended = False
    try:
        async with feeding(_send(socket, call), socket.transport.abort):
            async for message in _messages(socket):
                response = _read(message)
                final = response.parameters is not None and response.parameters.get(FINAL) is True
                if response.outputs or not final:
                    yield response
                if final:
                    ended = True
                    break
        if not ended:
            raise ConnectionFailed("the connection ended before the last response", retryable=True)
    finally:
        if ended:
            await socket.close()
        else:
            socket.transport.abort()  # abort immediately: the model would continue during a closing handshake


async def _connect(target: Target, call: OutgoingCall) -> ClientConnection:
    scheme, _, rest = target.base.partition("://")
    secure = scheme == "https"
    url = f"{'wss' if secure else 'ws'}://{rest}{call.model.path}/stream"
    options: dict[str, Any] = {} if not secure or target.verify else {"ssl": build_unverified_context()}
    try:
        return await connect(
            url,
            additional_headers=call.http_headers(),
            compression=None,
            open_timeout=target.timeout,
            close_timeout=1,
            max_size=None,
            **options,
        )
    except InvalidStatus as error:
        response = error.response
        raise http_error(
            response.status_code,
            bytes(response.body or b""),
            response.reason_phrase,
            response.headers.get("retry-after"),
        ) from None
    except (OSError, TimeoutError) as error:
        raise unreachable(target.base, error) from None
    except (InvalidHandshake, InvalidURI) as error:
        raise CallFailed(f"no connection: {error}") from None


async def _send(socket: ClientConnection, call: OutgoingCall) -> None:
    assert call.more is not None
    try:
        await socket.send(_message(call.request, "first", call.binary))
        async for request in call.more:
            await socket.send(_message(request, "next", call.binary))
        await socket.send(f'{{"id":"{ID}","part":"last"}}')
    except ConnectionClosed:
        return  # reading the responses raises the reason


def _message(request: InferenceRequest, part: str, binary: bool) -> str | bytes:
    document, blobs = dump_request(request.model_copy(update={"id": ID}), binary)
    text = b'{"part":"%b",%b' % (part.encode(), document[1:])
    if not binary:
        return text.decode()
    return b"".join((len(text).to_bytes(LENGTH, "little"), text, *blobs))


async def _messages(socket: ClientConnection) -> AsyncIterator[str | bytes]:
    try:
        async for message in socket:
            yield message
    except ConnectionClosed as error:
        raise ConnectionFailed(f"the connection ended: {error}", retryable=True) from None


def _read(message: str | bytes) -> InferenceResponse:
    text, tail = message.encode() if isinstance(message, str) else message, memoryview(b"")
    if isinstance(message, bytes):
        end = LENGTH + int.from_bytes(message[:LENGTH], "little")
        text, tail = message[LENGTH:end], memoryview(message)[end:]
    try:
        document = load(text)
        if isinstance(document, dict) and "error" in document:
            raise parse_stream_error(text)
        return build_response(document, tail)
    except InvalidRequest as error:
        raise build_invalid_response_error(error) from None
