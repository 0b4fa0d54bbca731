"""RPCs whose responses have the id of their request."""

import asyncio
from typing import Any

import pytest

from inferstream.context import request_id_var
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.rpc_ids import with_request_id
from inferstream.server.request_ids import RequestIds


class Context:
    def __init__(self, *metadata: tuple[str, str | bytes]) -> None:
        self.metadata = CallMetadata(metadata)
        self.initial: Any = ()

    def add_initial_metadata(self, metadata: Any) -> None:
        self.initial += metadata


async def served(context: Context, every: bool = False) -> str:
    """The id that the RPC knows."""

    async def serve(incoming: bytes | None, context: Any) -> bytes:
        return request_id_var.get().encode()

    around = with_request_id(RequestIds(every), serve)
    response = await asyncio.create_task(_call(around, context))
    return response.decode()


async def _call(around: Any, context: Context) -> bytes:
    response: bytes = await around(b"", context)
    return response


async def test_request_id_is_in_the_task_and_initial_metadata() -> None:
    context = Context(("x-request-id", "a"), ("x-request-id", "b"))
    assert await served(context) == "b"
    assert context.initial == (("x-request-id", "b"),)


@pytest.mark.parametrize("every", [False, True])
async def test_call_without_id_gets_one_if_ids_are_enabled(every: bool) -> None:
    context = Context()
    request_id = await served(context, every)
    assert bool(request_id) is every
    assert context.initial == ((("x-request-id", request_id),) if every else ())
