"""Tracing without what it needs."""

import sys

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.server import Server
from inferstream.settings import Settings


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inferstream.telemetry.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    with pytest.raises(InvalidSettings, match=r"inferstream\[tracing\]"):
        Server(Settings(tracing_server="127.0.0.1:1"))
