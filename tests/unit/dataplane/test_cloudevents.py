"""The headers, and when a server makes them."""

from pathlib import Path

import pytest

from inferstream import Settings
from inferstream.dataplane import cloudevents
from inferstream.dataplane.call import identify
from inferstream.dataplane.cloudevents import LONGEST, CloudEvents, wanted
from inferstream.types import Headers, InferenceRequest


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that runs in Kubernetes."""
    (tmp_path / "namespace").write_text("prod")
    monkeypatch.setattr(cloudevents, "NAMESPACE_FILE", tmp_path / "namespace")


def test_unasked_they_are_made_only_in_kubernetes() -> None:
    assert [wanted(Settings(cloudevents_headers=setting)) for setting in (None, True, False)] == [
        False,
        True,
        False,
    ]


@pytest.mark.usefixtures("pod")
def test_in_kubernetes_they_name_the_namespace() -> None:
    assert [wanted(Settings(cloudevents_headers=setting)) for setting in (None, True, False)] == [
        True,
        True,
        False,
    ]
    request = InferenceRequest(id="7", inputs=[])
    identify(request, Headers([(b"X-Mine", b"1")]))
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


def test_what_no_header_can_carry_is_encoded_and_what_is_too_long_left_out() -> None:
    events = CloudEvents("ü\r\nx: y")
    assert (
        dict(events.headers("m", "a é", str))["ce-source"] == "io.seldon.serving.deployment.%C3%BC%0D%0Ax: y"
    )
    assert dict(events.headers("m", "a é", str))["ce-id"] == "a %C3%A9"
    assert "ce-id" not in dict(events.headers("m", "a" * (LONGEST + 1), str))
    assert "ce-modelid" not in dict(events.headers("é" * LONGEST, "1", str))


def test_headers_can_be_changed_as_the_dictionary_they_were() -> None:
    headers = Headers([(b"X-A", b"1"), ("x-b", "2")])
    headers["x-c"] = "3"
    assert headers.pop("x-a") == "1"
    assert dict(headers) == {"x-b": "2", "x-c": "3"}
