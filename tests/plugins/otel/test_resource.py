"""The resource of spans and metrics follows the variables of OpenTelemetry."""

import pytest

from inferstream import Settings
from inferstream.ext.calls import ServerParts
from inferstream.ext.telemetry import Meters
from inferstream.plugins.otel.resource import build_resource
from inferstream.plugins.otel.spans import build_push
from inferstream.plugins.otel.tracer import build_tracer

OWN = {"service.name": "inferstream", "service.version": "1"}


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "inferstream"),
        ({"OTEL_SERVICE_NAME": "team-x"}, "team-x"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=team-y,a=b"}, "team-y"),
        ({"OTEL_SERVICE_NAME": "team-x", "OTEL_RESOURCE_ATTRIBUTES": "service.name=team-y"}, "team-x"),
    ],
)
def test_variables_set_service_name(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    attributes = build_resource(OWN).attributes
    assert (attributes["service.name"], attributes["service.version"]) == (name, "1")


def test_process_instance_id_is_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod,a=b")
    attributes = build_resource({**OWN, "service.instance.id": "host-1"}).attributes
    assert (attributes["service.instance.id"], attributes["a"]) == ("host-1", "b")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
)
def test_variables_disable_export(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    settings = Settings(tracing_server="http://127.0.0.1:1", metrics_push_server="http://127.0.0.1:1")
    if "METRICS" not in variable:
        assert build_tracer(ServerParts(settings, Meters())) is None
    if "TRACES" not in variable:
        assert build_push(ServerParts(settings, Meters())) is None
