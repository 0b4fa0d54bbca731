"""`RpcChannel`: calls to one address, over a connection that is opened again after a loss."""

import asyncio
from collections.abc import Callable
from typing import Any

from .call import MAX_MESSAGE_BYTES, RpcCall
from .connection import RpcConnection, encode_headers
from .status import RpcError, RpcStatus

CONNECT_SECONDS = 5.0

UNIX = "unix:"


class RpcMethod:
    """An RPC of a service: its path, and the functions that encode requests and decode responses."""

    def __init__(self, path: str, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self.path, self.encode, self.decode = path, encode, decode


class RpcChannel:
    """A client of the server at `address`, `host:port` or `unix:/path`, without encryption."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._authority = "localhost" if address.startswith(UNIX) else address
        self._headers: dict[str, bytes] = {}
        self._connection: RpcConnection | None = None
        self._connecting = asyncio.Lock()

    async def start(self, method: RpcMethod, request: Any, timeout: float | None = None) -> RpcCall:
        """Start a call, which fails after `timeout` seconds. Raises RpcError."""
        message = method.encode(request)
        if len(message) > MAX_MESSAGE_BYTES:
            raise RpcError(
                RpcStatus.RESOURCE_EXHAUSTED, f"the request is longer than {MAX_MESSAGE_BYTES} bytes"
            )
        if (headers := self._headers.get(method.path)) is None:
            headers = self._headers[method.path] = encode_headers(self._authority, method.path)
        connection = self._connection
        if connection is None or not connection.is_usable:
            connection = await self._connect()
        return connection.start(headers, message, method.decode, timeout)

    def close(self) -> None:
        """Close the connection. Calls in progress fail with UNAVAILABLE."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _connect(self) -> RpcConnection:
        async with self._connecting:
            connection = self._connection
            if connection is None or not connection.is_usable:
                self._connection = None
                connection = self._connection = await self._open()
            return connection

    async def _open(self) -> RpcConnection:
        loop = asyncio.get_running_loop()
        connection: RpcConnection | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._address.startswith(UNIX):
                    path = self._address.removeprefix(UNIX)
                    _, connection = await loop.create_unix_connection(RpcConnection, path)
                else:
                    host, _, port = self._address.rpartition(":")
                    _, connection = await loop.create_connection(RpcConnection, host.strip("[]"), int(port))
                await asyncio.shield(connection.opened)
                return connection
        except TimeoutError:
            raise RpcError(RpcStatus.UNAVAILABLE, "the peer does not accept the connection in time") from None
        except (OSError, OverflowError) as error:
            raise RpcError(RpcStatus.UNAVAILABLE, str(error)) from None
        finally:
            if connection is not None and not connection.opened.done():
                connection.close()
