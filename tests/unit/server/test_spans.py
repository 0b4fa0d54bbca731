"""Tracing without what it needs."""

import sys
from types import ModuleType

import pytest
from google.protobuf.runtime_version import VersionError

from inferstream.errors import InvalidSettings
from inferstream.server.server import Server
from inferstream.settings import Settings


@pytest.mark.parametrize(
    ("module", "exporter", "setting"),
    [("tracing", "trace_exporter", "tracing_server"), ("push", "metric_exporter", "metrics_push_server")],
)
async def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, exporter: str, setting: str
) -> None:
    monkeypatch.delitem(sys.modules, f"inferstream.telemetry.{module}", raising=False)
    monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.grpc.{exporter}", None)
    with pytest.raises(InvalidSettings, match=rf"{setting} needs .*inferstream\[tracing\]"):
        Server(Settings(**{setting: "127.0.0.1:1"}))


class TooNew(ModuleType):
    """A module that leads to one which was generated for a newer protobuf."""

    def __getattr__(self, name: str) -> None:
        raise VersionError("gencode 9.1.0 runtime 6.33.6.\nSee https://protobuf.dev")


async def test_an_extra_that_the_installed_protobuf_cannot_load_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
    monkeypatch.delitem(sys.modules, "inferstream.telemetry.tracing", raising=False)
    monkeypatch.setitem(sys.modules, exporter, TooNew(exporter))
    with pytest.raises(
        InvalidSettings, match=r"VersionError: gencode 9\.1\.0 runtime 6\.33\.6\.$"
    ) as failure:
        Server(Settings(tracing_server="127.0.0.1:1"))
    assert "\n" not in failure.value.message
