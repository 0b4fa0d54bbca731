"""Spans of RPCs."""

import asyncio
from typing import Any

import pytest

from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.grpc.tracing import traced as traced_rpc

from ..rest.test_tracing import Span, Tracing
from .test_rpc import Context


def traced(serve: Any, method: str = "ModelInfer") -> tuple[Any, list[Span]]:
    tracing: Any = Tracing()
    return traced_rpc(tracing, "s.Service", method, serve), tracing.spans


async def answer(incoming: bytes | None, context: Any) -> bytes | None:
    return incoming


async def test_an_rpc_has_a_span_and_a_probe_has_none() -> None:
    serve, spans = traced(answer)
    assert await serve(b"a", Context()) == b"a"
    (span,) = spans
    assert (span.name, span.ended) == ("s.Service/ModelInfer", [None])
    assert span.values == {
        "rpc.system.name": "grpc",
        "rpc.method": "s.Service/ModelInfer",
        "rpc.response.status_code": "OK",
    }
    assert traced(answer, "Check")[0] is answer


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (StatusCode.INTERNAL, "INTERNAL: why"),
        (StatusCode.UNAVAILABLE, "UNAVAILABLE: why"),
        (StatusCode.NOT_FOUND, None),
        (StatusCode.INVALID_ARGUMENT, None),
    ],
)
async def test_a_fault_of_the_server_is_an_error_of_its_span(code: StatusCode, failure: str | None) -> None:
    async def fail(incoming: bytes | None, context: Any) -> bytes:
        raise RpcFailed(code, "why")

    serve, spans = traced(fail)
    with pytest.raises(RpcFailed):
        await serve(b"", Context())
    (span,) = spans
    assert (span.values["rpc.response.status_code"], span.ended) == (code.name, [failure])
    assert span.values.get("error.type") == (None if failure is None else code.name)


async def test_a_cancelled_rpc_is_no_error() -> None:
    async def wait(incoming: bytes | None, context: Any) -> bytes:
        raise asyncio.CancelledError

    serve, spans = traced(wait)
    with pytest.raises(asyncio.CancelledError):
        await serve(b"", Context())
    assert (spans[0].values["rpc.response.status_code"], spans[0].ended) == ("CANCELLED", [None])
