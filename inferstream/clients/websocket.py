"""Streams in both directions over a WebSocket."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from ..errors import CallFailed, ConnectionFailed, InvalidRequest
from ..protos.dialects import FINAL_RESPONSE as FINAL
from ..protos.json_client import dump_request, response_in
from ..protos.json_requests import load
from ..protos.websocket import LENGTH
from ..types import InferenceRequest, InferenceResponse
from .failures import in_band, no_response, of_http
from .feeding import feeding
from .transport import OutgoingCall, Target, any_certificate

ID = "1"
"""The id of the only request of a connection."""


async def converse(target: Target, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
    """The responses to a call, whose later requests are sent meanwhile. Raises CallFailed."""
    socket = await _connected(target, call)
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
            socket.transport.abort()  # at once: a closing handshake would let the model go on


async def _connected(target: Target, call: OutgoingCall) -> ClientConnection:
    scheme, _, rest = target.base.partition("://")
    secure = scheme == "https"
    url = f"{'wss' if secure else 'ws'}://{rest}{call.model.path}/stream"
    options: dict[str, Any] = {} if not secure or target.verify else {"ssl": any_certificate()}
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
        raise of_http(
            response.status_code,
            bytes(response.body or b""),
            response.reason_phrase,
            response.headers.get("retry-after"),
        ) from None
    except (OSError, TimeoutError) as error:
        raise ConnectionFailed(f"no connection: {error}", retryable=True, unreachable=True) from None
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
        return  # the reader of responses says why


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
            raise in_band(text)
        return response_in(document, tail)
    except InvalidRequest as error:
        raise no_response(error) from None
