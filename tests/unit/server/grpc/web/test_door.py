"""Which requests are gRPC-Web's, and who may send them."""

from typing import Any

import pytest

from inferstream.errors import PermissionDenied
from inferstream.server.grpc.web.call import WebLimits
from inferstream.server.grpc.web.door import GrpcWeb, build_web
from inferstream.settings import Settings

from .test_call import PATH, Client, One, echo


async def test_cross_origin_pages_cannot_call_rpcs() -> None:
    def check(_: object) -> None:
        raise PermissionDenied("not this page")

    door = GrpcWeb(One(echo, False), WebLimits(1000, None, 60), "default", check)
    for path in (PATH, "/a.B/RepositoryModelLoad", "/a.B/RepositoryModelUnload"):
        client = Client(b"")
        client.scope["path"] = path
        await door(client.scope, client.incoming.get, client.send)
        assert client.trailers["grpc-status"] == "7"


def test_grpc_web_requests_are_claimed() -> None:
    door = GrpcWeb(One(echo, False), WebLimits(1000, None, 60), "default", lambda _: None)

    def claims(path: str, media: bytes) -> bool:
        return door.claims({"path": path, "method": "GET", "headers": [(b"content-type", media)]})

    assert claims(PATH, b"")
    assert claims("/anything", b"application/grpc-web-text")
    assert not claims("/some.Service/Other", b"application/json")
    assert not claims("/v2/health/live", b"")


@pytest.mark.parametrize(
    ("method", "media", "status", "said"),
    [
        ("GET", b"application/grpc-web", 405, "An RPC takes POST."),
        ("POST", b"application/grpc-web+json", 415, "application/grpc-web-text+proto"),
        ("POST", b"", 415, "The content type of an RPC over this port is one of"),
    ],
)
async def test_non_grpc_web_request_is_refused_as_http(
    method: str, media: bytes, status: int, said: str
) -> None:
    door = GrpcWeb(One(echo, False), WebLimits(1000, None, 60), "default", lambda _: None)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": PATH, "headers": [(b"content-type", media)]}
    await door(scope, None, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == status
    assert said in sent[1]["body"].decode()
    assert (dict(sent[0]["headers"]).get(b"allow") == b"POST") is (status == 405)


async def test_unknown_rpc_is_unimplemented() -> None:
    client = Client(b"")
    client.scope["path"] = "/some.Service/Other"
    await client.call(echo, streams=False)
    assert (client.trailers["grpc-status"], "no RPC" in client.trailers["grpc-message"]) == ("12", True)


def test_settings_disable_it_and_limit_messages() -> None:
    rpcs = One(echo, False)
    assert build_web(rpcs, Settings(grpc_web=False), lambda _: None) is None
    bounded = build_web(rpcs, Settings(max_body_bytes=7), lambda _: None)
    assert bounded is not None
    assert bounded._limits.receive == 7
    both = build_web(rpcs, Settings(max_body_bytes=7, grpc_max_message_length=9), lambda _: None)
    assert both is not None
    assert (both._limits.receive, both._limits.send) == (9, 9)
