"""The headers, and when a server makes them."""

from pathlib import Path

import pytest

from inferstream import Settings
from inferstream.plugins.cloudevents import events as cloudevents
from inferstream.plugins.cloudevents.events import MAX_VALUE_LENGTH, CloudEvents, should_send
from inferstream.types import Headers, InferenceRequest


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that runs in Kubernetes."""
    (tmp_path / "namespace").write_text("prod")
    monkeypatch.setattr(cloudevents, "NAMESPACE_FILE", tmp_path / "namespace")


def test_events_are_made_by_default_only_in_kubernetes() -> None:
    assert [should_send(Settings(cloudevents_headers=setting)) for setting in (None, True, False)] == [
        False,
        True,
        False,
    ]


@pytest.mark.usefixtures("pod")
def test_kubernetes_events_name_the_namespace() -> None:
    assert [should_send(Settings(cloudevents_headers=setting)) for setting in (None, True, False)] == [
        True,
        True,
        False,
    ]
    request = InferenceRequest(id="7", inputs=[])
    request.carry(Headers([(b"X-Mine", b"1")]))
    CloudEvents("shop").add_to(request, "m")
    assert dict(request.parameters.headers) == {
        "x-mine": "1",
        "Ce-Specversion": "0.3",
        "Ce-Source": "io.seldon.serving.deployment.shop.prod",
        "Ce-Type": "io.seldon.serving.inference.request",
        "Ce-Modelid": "m",
        "Ce-Inferenceservicename": "shop",
        "Ce-Endpoint": "m",
        "Ce-Namespace": "prod",
        "Ce-Id": "7",
        "Ce-Requestid": "7",
    }


def test_header_values_are_encoded_and_oversized_ones_dropped() -> None:
    events = CloudEvents("ü\r\nx: y")
    assert (
        dict(events.headers("m", "a é", str))["ce-source"] == "io.seldon.serving.deployment.%C3%BC%0D%0Ax: y"
    )
    assert dict(events.headers("m", "a é", str))["ce-id"] == "a %C3%A9"
    assert "ce-id" not in dict(events.headers("m", "a" * (MAX_VALUE_LENGTH + 1), str))
    assert "ce-modelid" not in dict(events.headers("é" * MAX_VALUE_LENGTH, "1", str))


def test_headers_can_be_modified_as_dictionary() -> None:
    headers = Headers([(b"X-A", b"1"), ("x-b", "2")])
    headers["x-c"] = "3"
    assert headers.pop("x-a") == "1"
    assert dict(headers) == {"x-b": "2", "x-c": "3"}
