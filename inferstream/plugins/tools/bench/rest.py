"""The HTTP client of the load test.

It parses as little as possible. A general client library takes longer for a small request than the server, so
the load test would measure the library.
"""

import asyncio
from collections.abc import Mapping
from typing import cast
from urllib.parse import quote, urlsplit

import httptools

from inferstream.errors import CallFailed
from inferstream.ext.hosting import ClientTarget

from .load import ItemCame

HeaderPairs = Mapping[str, str]

QUOTED = 200
"""Maximum number of bytes of a failed response that an error quotes."""


class RestCaller:
    """Repeatedly sends the same body over its own connection, and counts the events of streams."""

    def __init__(
        self, target: ClientTarget, model: str, action: str, body: bytes, headers: HeaderPairs
    ) -> None:
        parts = urlsplit(target.base)
        self._tls = target.tls_context()
        self._host = parts.hostname or "localhost"
        self._port = parts.port or (80 if self._tls is None else 443)
        self._timeout = target.timeout
        path = f"{parts.path.rstrip('/')}/v2/models/{quote(model, safe='')}/{action}"
        sent = {"Host": parts.netloc, "Content-Type": "application/json", **headers}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        self._request = head.encode() + body
        self._connection: _Connection | None = None

    async def call(self, came: ItemCame) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                connection = self._connection
                if connection is None or connection.closed:
                    connection = self._connection = await self._connect()
                await connection.send(self._request, came)
        except TimeoutError:
            await self.aclose()
            raise CallFailed("timeout") from None
        except OSError as error:
            raise CallFailed(f"connection: {error.strerror or type(error).__name__}") from error
        except BaseException:  # A cancelled call leaves an unread response.
            await self.aclose()
            raise

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, self._host, self._port, ssl=self._tls)
        return connection

    async def aclose(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(asyncio.Protocol):
    """A connection that sends one request at a time. The httptools parser calls its `on_…` methods."""

    closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._done: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)

    async def send(self, request: bytes, came: ItemCame) -> None:
        """Send a request and read the whole response. Raises CallFailed or ConnectionError."""
        self._came = came
        self._stream = False
        self._body = b""
        self._fault = ""
        self._rest_of_input = False
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._done
        status = self._parser.get_status_code()
        if not self._rest_of_input:
            self.close()
        self._parser = httptools.HttpResponseParser(self)
        if status != 200:
            raise CallFailed(f"{status}: {self._body[:QUOTED].decode('utf-8', 'replace')}")
        if self._fault:
            raise CallFailed(self._fault)

    def close(self) -> None:
        self.closed = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(CallFailed(f"not HTTP: {error}"))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._end(ConnectionResetError(0, "ended by the server"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type" and value.startswith(b"text/event-stream"):
            self._stream = True

    def on_body(self, body: bytes) -> None:
        if not self._stream:
            self._body = (self._body + body)[:QUOTED]
            return
        *events, self._body = (self._body + body).split(b"\n\n")
        items = 0
        for event in events:
            if event.startswith(b"id:"):  # Resumable streams have event ids.
                event = event.partition(b"\n")[2]
            if event.startswith(b"event: error"):
                self._fault = (
                    f"error event: {event.partition(b'data: ')[2][:QUOTED].decode('utf-8', 'replace')}"
                )
            elif event.startswith(b"data:"):
                items += 1
        if items:
            self._came(items)

    def on_message_complete(self) -> None:
        self._rest_of_input = self._parser.should_keep_alive()  # The parser cannot provide this value later.
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        done = self._done
        if done is None or done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
