"""Load reports in trailers and in a stream."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.plugins.kubernetes import orca_rpcs as orca
from inferstream.plugins.kubernetes.orca_rpcs import SHORTEST, USUAL, OrcaService, add_load
from inferstream.plugins.kubernetes.protos.orca_request_pb2 import OrcaLoadReportRequest


class Reports:
    always = False

    def trailer(self) -> bytes:
        return b"report"

    async def stream_reports(self) -> AsyncIterator[bytes]:
        while True:
            yield b"fresh"


class Context:
    def __init__(self, *metadata: tuple[str, str]) -> None:
        self.metadata = SimpleNamespace(pairs=metadata)
        self.trailing: Any = ()

    def add_trailing_metadata(self, metadata: Any) -> None:
        self.trailing += metadata


ASKED = ("endpoint-load-metrics-format", "bin")


@pytest.mark.parametrize(
    ("always", "metadata", "reported"),
    [(False, (), False), (False, (ASKED,), True), (True, (), True)],
)
@pytest.mark.parametrize("fails", [False, True])
async def test_requested_report_is_in_trailers(
    always: bool, metadata: Any, reported: bool, fails: bool
) -> None:
    reports: Any = Reports()
    reports.always = always

    async def serve(incoming: bytes | None, context: Any) -> bytes:
        assert context.trailing == (), "the load is that of the end"
        if fails:
            raise ValueError
        return b"response"

    context: Any = Context(*metadata)
    served = add_load(reports, serve)
    if fails:
        with pytest.raises(ValueError):
            await served(b"", context)
    else:
        assert await served(b"", context) == b"response"
    assert context.trailing == ((("endpoint-load-metrics-bin", b"report"),) if reported else ())


class Exchange:
    """A client of the stream that leaves after three reports."""

    def __init__(self, request: OrcaLoadReportRequest | None) -> None:
        self.request = request
        self.written: list[bytes] = []

    async def read(self) -> OrcaLoadReportRequest | None:
        return self.request

    async def write(self, data: bytes) -> None:
        self.written.append(data)
        if len(self.written) == 3:
            raise ConnectionResetError


def every(seconds: int, nanos: int = 0) -> OrcaLoadReportRequest:
    request = OrcaLoadReportRequest()
    request.report_interval.seconds, request.report_interval.nanos = seconds, nanos
    return request


@pytest.mark.parametrize(
    ("request_", "pause"),
    [(None, USUAL), (OrcaLoadReportRequest(), USUAL), (every(2, 500_000_000), 2.5), (every(0, 1), SHORTEST)],
)
async def test_client_sets_interval_within_limit(
    monkeypatch: pytest.MonkeyPatch, request_: Any, pause: float
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    class Asyncio:
        pass

    Asyncio.sleep = staticmethod(sleep)  # type: ignore[attr-defined]
    monkeypatch.setattr(orca, "asyncio", Asyncio)
    exchange: Any = Exchange(request_)
    with pytest.raises(ConnectionResetError):
        await OrcaService(Reports()).StreamCoreMetrics(exchange)  # type: ignore[arg-type]
    assert (exchange.written, pauses) == ([b"fresh"] * 3, [pause] * 2)
    assert asyncio.sleep is not sleep
