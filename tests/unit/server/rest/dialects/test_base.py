"""The parts that each dialect inherits."""

from typing import Any, cast

import orjson
import pytest

from inferstream.dataplane.admission import Admission
from inferstream.dataplane.call import Operation
from inferstream.dataplane.dataplane import DataPlane
from inferstream.errors import ModelNotReady
from inferstream.server.rest.dialects.base import HttpDialect, InferenceDialect, ParsedRequest, Route
from inferstream.server.rest.messages import PREFIX
from inferstream.settings import Settings
from inferstream.telemetry import console
from inferstream.telemetry.metrics import Meters
from inferstream.types import InferenceRequest


class Plain(HttpDialect):
    name = "plain"


class Resumed(InferenceDialect):
    name = "resumed"
    resumable = True
    inferences = {"/resumed": Operation.STREAM}

    def parse(self, *_: Any) -> ParsedRequest:
        raise NotImplementedError


def made(kind: type[HttpDialect], **settings: Any) -> Any:
    return kind(cast(DataPlane, None), Settings(**settings), Meters())


def test_dialect_title_is_in_access_lines() -> None:
    before = dict(console.TITLES)
    try:

        class Titled(HttpDialect):
            name = "titled"
            title = "Titled"

        after = dict(console.TITLES)
        assert after == before | {"titled": "Titled"}
        assert "plain" not in after
    finally:
        console.TITLES.pop("titled", None)


@pytest.mark.parametrize(("profile", "status"), [("default", 503), ("mlserver", 400)])
def test_error_status_follows_the_profile(profile: str, status: int) -> None:
    found, headers, body = made(Plain, status_profile=profile).error(ModelNotReady("m"))
    assert (found, dict(headers)[b"content-type"]) == (status, b"application/json")
    assert orjson.loads(body)["error"] == ModelNotReady("m").message


@pytest.mark.parametrize(("operation", "resumable"), [(Operation.STREAM, True), (Operation.INFER, False)])
def test_stream_is_resumable_if_its_dialect_is(operation: Operation, resumable: bool) -> None:
    assert Route(made(Resumed), operation, "m", None, "/resumed").resumable is resumable
    assert not Route(
        made(type("Other", (Resumed,), {"resumable": False})), operation, "m", None, "/"
    ).resumable


class Whole(ParsedRequest):
    """A request without a stream."""

    def __init__(self, admission: Any) -> None:
        self.admission = cast(Admission, admission)
        self.operation = Operation.INFER
        self.request = InferenceRequest(inputs=[])

    def response(self, response: Any) -> Any:
        raise NotImplementedError


class Opened:
    """Keeps what it is asked to open."""

    async def open(self, *asked: Any) -> Any:
        return asked


async def test_request_is_opened_by_its_admission() -> None:
    asked = Whole(Opened())
    assert await asked.open() == (Operation.INFER, asked.request)


def test_unary_request_has_no_events() -> None:
    asked = Whole(None)
    assert asked.gathering() is None
    with pytest.raises(NotImplementedError):
        asked.events()
    with pytest.raises(NotImplementedError):
        asked.failure(ModelNotReady("m"))


def test_dialect_has_client_prefix_and_encoding() -> None:
    packed: Any = {"headers": [(b"accept-encoding", b"gzip")]}
    assert made(Plain)._encoding(packed) == b"gzip"
    assert made(Plain)._encoding({"headers": []}) is None
    assert made(Plain, gzip_enabled=False)._encoding(packed) is None
    assert made(Plain)._prefix({}) == ""
    assert made(Plain, root_path="/app")._prefix({}) == "/app"
    assert made(Plain, root_path="/app")._prefix({}, "") == ""
    assert made(Plain, root_path="/app")._prefix({PREFIX: "/mount"}, "") == "/mount"
