"""Ids that clients may choose."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from inferstream import MLModel
from inferstream.keys.secret import new_key
from inferstream.server.application import Application
from inferstream.server.request_ids import LONGEST, RequestIds
from inferstream.settings import Settings
from inferstream.telemetry.masks import PREFIX


@pytest.mark.parametrize("sent", [b"7", b"x" * LONGEST, b"aZ_0.9:/+=@,;-"])
def test_well_formed_ids_are_taken(sent: bytes) -> None:
    assert RequestIds().id(sent) == sent


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b" ",
        b"a ",
        b" a",
        b"x" * (LONGEST + 1),
        b"a\tb",
        b"a\r\nb",
        b"a\n",
        b"\x7f",
        "ü".encode(),
        b"\xfc",
    ],
)
def test_others_are_replaced(sent: bytes) -> None:
    made = RequestIds().id(sent)
    assert made is not None
    assert made != sent
    assert len(made) == 36


def test_a_key_is_no_id() -> None:
    made = RequestIds().id(new_key("abc").encode())
    assert made is not None
    assert PREFIX.encode() not in made


@pytest.mark.parametrize("sent", [b"a b", b"7] [trace_id=1", b"[2]", b'"', b"~"])
def test_what_could_forge_a_field_of_a_line_is_replaced(sent: bytes) -> None:
    assert len(RequestIds().id(sent) or b"") == 36


def test_requests_without_an_id_get_one_only_if_the_settings_say_so() -> None:
    assert RequestIds.of(Settings()).among([(b"host", b"x")]) is None
    every = RequestIds.of(Settings(request_ids="always"))
    assert every.among([]) != every.among([])
    assert every.among([(b"x-request-id", b"1"), (b"x-request-id", b"2")]) == b"2"


class Nothing(MLModel):
    async def predict_stream(self, payloads):
        async for _ in payloads:
            yield "nothing"


async def test_an_application_in_a_server_of_others_has_them_too() -> None:
    async with Application({"m": Nothing}) as application:
        host = Starlette(routes=[Mount("/models", application.asgi)])
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://x/models") as client:
            for path in ("/v2/models/m", "/v2/models/nobody"):
                assert "x-request-id" not in (await client.get(path)).headers
                found = await client.get(path, headers={"X-Request-Id": "7"})
                assert found.headers.get_list("x-request-id") == ["7"]


@pytest.mark.parametrize("model", ["m", "nobody"])
async def test_a_handshake_over_asgi_has_the_id(model: str) -> None:
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
