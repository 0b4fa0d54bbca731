"""Tracing without what it needs."""

import sys
from types import ModuleType

import pytest
from google.protobuf.runtime_version import VersionError

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import build_server


@pytest.mark.parametrize(
    ("module", "exporter", "setting"),
    [("tracing", "trace_exporter", "tracing_server"), ("push", "metric_exporter", "metrics_push_server")],
)
async def test_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, exporter: str, setting: str
) -> None:
    monkeypatch.delitem(sys.modules, f"inferstream.plugins.otel.{module}", raising=False)
    monkeypatch.setitem(sys.modules, f"opentelemetry.exporter.otlp.proto.grpc.{exporter}", None)
    with pytest.raises(InvalidSettings, match=rf'{setting} needs .* hint: pip install "opentelemetry'):
        build_server(Settings(**{setting: "127.0.0.1:1"}))


class TooNew(ModuleType):
    """A module that leads to one which was generated for a newer protobuf."""

    def __getattr__(self, name: str) -> None:
        raise VersionError("gencode 9.1.0 runtime 6.33.6.\nSee https://protobuf.dev")


async def test_incompatible_protobuf_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
    monkeypatch.delitem(sys.modules, "inferstream.plugins.otel.tracing", raising=False)
    monkeypatch.setitem(sys.modules, exporter, TooNew(exporter))
    with pytest.raises(
        InvalidSettings, match=r"VersionError: gencode 9\.1\.0 runtime 6\.33\.6; hint: pip install"
    ) as failure:
        build_server(Settings(tracing_server="127.0.0.1:1"))
    assert "\n" not in failure.value.message
