"""Failures of calls over gRPC."""

import grpc
import grpc.aio
import pytest

from inferstream.clients.grpc import _convert_error
from inferstream.clients.retries import never_started
from inferstream.errors import CallFailed, CallTimedOut, ConnectionFailed


def status(code: grpc.StatusCode, details: str, **trailing: str) -> grpc.aio.AioRpcError:
    pairs = [(name.replace("_", "-"), value) for name, value in trailing.items()]
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*pairs), details)


@pytest.mark.parametrize(
    ("error", "kind", "number", "repeats"),
    [
        (
            status(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses"),
            ConnectionFailed,
            None,
            True,
        ),
        (status(grpc.StatusCode.UNAVAILABLE, "Socket closed"), ConnectionFailed, None, False),
        (status(grpc.StatusCode.UNAVAILABLE, "later", retry_after="1"), CallFailed, 503, True),
        (
            status(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", grpc_retry_pushback_ms="50"),
            CallFailed,
            429,
            True,
        ),
        (status(grpc.StatusCode.RESOURCE_EXHAUSTED, "too large"), CallFailed, 429, False),
        (status(grpc.StatusCode.DEADLINE_EXCEEDED, "late"), CallTimedOut, 504, False),
        (status(grpc.StatusCode.INVALID_ARGUMENT, "wrong"), CallFailed, 400, False),
        (status(grpc.StatusCode.DATA_LOSS, "gone"), CallFailed, 500, False),
    ],
)
def test_grpc_errors_are_mapped(
    error: grpc.aio.AioRpcError, kind: type, number: int | None, repeats: bool
) -> None:
    found = _convert_error(error)
    assert (type(found), found.status, found.message) == (kind, number, error.details())
    assert str(found) == f"{error.code().name}: {error.details()}"
    assert never_started(found) == repeats
    if found.retry_after is not None:
        assert found.retry_after in (1.0, 0.05)
