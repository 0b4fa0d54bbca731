"""What happens to a server whose collector is configured, but not the packages for it."""

import logging
import sys
from types import SimpleNamespace

import pytest

from inferstream import Settings
from inferstream.errors import MissingExtra
from inferstream.plugins.otel import tracer
from inferstream.plugins.otel.settings import OtelSettings

COLLECTOR = "127.0.0.1:4317"


@pytest.fixture(autouse=True)
def _without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inferstream.plugins.otel.tracing", None)


@pytest.mark.parametrize("strict", [False, True])
def test_setting_without_packages_ends_start(strict: bool) -> None:
    with pytest.raises(MissingExtra, match="tracing"):
        tracer.build_tracer(SimpleNamespace(settings=Settings(tracing_server=COLLECTOR, strict=strict)))


def test_variable_of_mlserver_without_packages_is_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLSERVER_TRACING_SERVER", COLLECTOR)
    settings = Settings()
    with caplog.at_level(logging.WARNING):
        assert tracer.build_tracer(SimpleNamespace(settings=settings)) is None
    assert "no traces are sent: tracing_server needs " in caplog.text
    assert settings.section(OtelSettings).tracing_server is None  # worker processes do not try again
    with pytest.raises(MissingExtra):
        tracer.build_tracer(SimpleNamespace(settings=Settings(strict=True)))
