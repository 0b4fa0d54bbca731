"""Stubs whose methods call models, over a transport that follows a script."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from inferstream import AsyncClient, Client
from inferstream.clients.stubs.base import DEFAULT, AsyncStub, Stub, remote
from tests.unit.clients.scripted import Scripted, number


class AsyncApp(AsyncStub):
    @remote("double", "2")
    async def double(self, n: int, by: int = DEFAULT) -> int: ...

    @remote("count")
    def count(self, n: int) -> AsyncIterator[int]: ...


class App(Stub):
    @remote("double", "2")
    def double(self, n: int, by: int = DEFAULT) -> int: ...

    @remote("count")
    def count(self, n: int) -> Iterator[int]: ...


def scripted(*script: object) -> tuple[AsyncClient, Scripted]:
    transport = Scripted(*script)
    client = AsyncClient("http://127.0.0.1:1")
    client._transport = transport  # type: ignore[assignment]
    return client, transport


def blocking(client: AsyncClient) -> Client:
    made = Client("http://127.0.0.1:1")
    made._client = client
    return made


def sent(transport: Scripted) -> dict[str, Any]:
    return {tensor.name: tensor.data.flat() for tensor in transport.calls[0].request.inputs}


async def test_method_calls_its_model_without_server_metadata() -> None:
    client, transport = scripted(number(6))
    assert await AsyncApp(client).double(3, by=2) == 6
    assert transport.calls[0].model == ("double", "2")
    assert sent(transport) == {"n": [3], "by": [2]}
    assert transport.fetched == []


async def test_default_without_literal_is_omitted() -> None:
    client, transport = scripted(number(6))
    await AsyncApp(client).double(3)
    assert sent(transport) == {"n": [3]}


async def test_stream_is_iterable() -> None:
    client, _ = scripted(number(1), number(2), None)
    assert [item async for item in AsyncApp(client).count(2)] == [1, 2]


def test_sync_stub_behaves_the_same() -> None:
    client, transport = scripted(number(6))
    assert App(blocking(client)).double(n=3) == 6
    assert transport.calls[0].model == ("double", "2")
    streaming, _ = scripted(number(1), number(2), None)
    assert list(App(blocking(streaming)).count(2)) == [1, 2]


def test_invalid_call_fails_immediately() -> None:
    client, transport = scripted()
    app = App(blocking(client))
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        app.count()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        app.double(3, m=3)  # type: ignore[call-arg]
    assert transport.calls == []
