"""Ids that clients may choose."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from inferstream import MLModel
from inferstream.plugins.keys.secret import new_key
from inferstream.server.application import Application
from inferstream.server.request_ids import MAX_ID_BYTES, RequestIds
from inferstream.settings import Settings
from inferstream.telemetry.masks import PREFIX


@pytest.mark.parametrize("sent", [b"7", b"x" * MAX_ID_BYTES, b"aZ_0.9:/+=@,;-"])
def test_well_formed_ids_are_accepted(sent: bytes) -> None:
    assert RequestIds().choose_id(sent) == sent


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b" ",
        b"a ",
        b" a",
        b"x" * (MAX_ID_BYTES + 1),
        b"a\tb",
        b"a\r\nb",
        b"a\n",
        b"\x7f",
        "ü".encode(),
        b"\xfc",
    ],
)
def test_malformed_ids_are_replaced(sent: bytes) -> None:
    made = RequestIds().choose_id(sent)
    assert made is not None
    assert made != sent
    assert len(made) == 36


def test_api_key_is_not_an_id() -> None:
    made = RequestIds().choose_id(new_key("abc").encode())
    assert made is not None
    assert PREFIX.encode() not in made


@pytest.mark.parametrize("sent", [b"a b", b"7] [trace_id=1", b"[2]", b'"', b"~"])
def test_id_that_could_forge_log_fields_is_replaced(sent: bytes) -> None:
    assert len(RequestIds().choose_id(sent) or b"") == 36


def test_ids_are_generated_only_if_enabled() -> None:
    assert RequestIds.of(Settings()).choose_from_headers([(b"host", b"x")]) is None
    every = RequestIds.of(Settings(request_ids="always"))
    assert every.choose_from_headers([]) != every.choose_from_headers([])
    assert every.choose_from_headers([(b"x-request-id", b"1"), (b"x-request-id", b"2")]) == b"2"


class Nothing(MLModel):
    async def predict_stream(self, payloads):
        async for _ in payloads:
            yield "nothing"


async def test_mounted_application_has_request_ids() -> None:
    async with Application({"m": Nothing}) as application:
        host = Starlette(routes=[Mount("/models", application.asgi)])
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://x/models") as client:
            for path in ("/v2/models/m", "/v2/models/nobody"):
                assert "x-request-id" not in (await client.get(path)).headers
                found = await client.get(path, headers={"X-Request-Id": "7"})
                assert found.headers.get_list("x-request-id") == ["7"]


@pytest.mark.parametrize("model", ["m", "nobody"])
async def test_asgi_handshake_has_the_id(model: str) -> None:
    incoming = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}])
    sent = []

    async def receive() -> dict:
        return next(incoming)

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": f"/v2/models/{model}/stream",
        "headers": [(b"x-request-id", b"7")],
        "extensions": {"websocket.http.response": {}},
    }
    async with Application({"m": Nothing}) as application:
        await application.asgi(scope, receive, send)
    assert dict(sent[0]["headers"])[b"x-request-id"] == b"7"
    assert sent[0]["type"] == ("websocket.accept" if model == "m" else "websocket.http.response.start")
