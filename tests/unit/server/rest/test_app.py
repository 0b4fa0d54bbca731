"""Which requests are whose: a dialect's, an endpoint's beside the routes, or nobody's."""

from typing import Any

import httpx
import pytest

from inferstream import Application
from inferstream.server.rest.app import POSTED, RestApp, is_probe
from inferstream.settings import Settings
from tests.asgi import BODY, Echo, asking


@pytest.mark.parametrize(
    ("path", "accept", "probe"),
    [
        ("/v2/health/live", b"text/html", True),
        ("/health", b"", True),
        ("/", b"", True),
        ("/", b"text/html,*/*", False),
        ("/v2", b"", False),
    ],
)
def test_root_is_a_probe_except_for_browsers(path: str, accept: bytes, probe: bool) -> None:
    assert is_probe(path, [(b"accept", accept)]) is probe


@pytest.mark.parametrize(
    ("method", "path", "allowed", "said"),
    [
        ("POST", "/v2/models/Echo", "GET, HEAD", POSTED),
        ("POST", "/v2/health/live", "GET, HEAD", "Method Not Allowed"),
        ("GET", "/v2/models/Echo/infer", "POST", "Method Not Allowed"),
        ("GET", "/v2/models/Echo/generate_stream", "POST", "get_streams"),
        ("DELETE", "/v2/models/Echo/infer", "POST", "Method Not Allowed"),
    ],
)
async def test_wrong_method_is_refused_with_allowed_methods(
    method: str, path: str, allowed: str, said: str
) -> None:
    async with asking(Echo, get_streams=False) as (client, _):
        refused = await client.request(method, path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    assert said in refused.json()["error"]


async def test_misspelt_inference_path_gets_a_suggestion() -> None:
    async with asking(Echo) as (client, _):
        wrong = await client.post("/v2/models/Ecco", content=BODY)
        assert wrong.status_code == 404
        assert wrong.json()["error"].endswith(POSTED)
        assert POSTED not in (await client.get("/v2/models/Ecco")).json()["error"]


async def test_cross_origin_page_may_only_read_health() -> None:
    headers = {"origin": "https://elsewhere.example"}
    async with asking(Echo) as (client, _):
        for path, status in (
            ("/v2", 403),
            ("/v2/models/Echo", 403),
            ("/proto", 403),
            ("/v2/health/ready", 200),
        ):
            assert (await client.get(path, headers=headers)).status_code == status


async def test_oversized_request_with_model_name_is_refused() -> None:
    async with asking(Echo, max_body_bytes=10) as (client, _):
        refused = await client.post("/api/show", content=b'{"model": "Echo"}')
        assert refused.status_code == 413


class Beside:
    """An endpoint of another room, at one path."""

    allowed_headers = ("x-own",)
    exposed_headers = ("x-shown",)

    def claims(self, scope: Any) -> bool:
        return scope["path"] in ("/beside", "/v2")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_mounted_endpoint_gets_unclaimed_paths() -> None:
    async with Application(Echo) as application:
        settings = Settings(
            cors_settings={"allow_origins": ["https://page.example"], "allow_headers": ["x-a"]}
        )
        rest = RestApp(application._backend.dataplane, settings, application.meters, beside=Beside())
        transport = httpx.ASGITransport(rest.entry)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert [(await client.get(path)).status_code for path in ("/beside", "/v2", "/nobody")] == [
                299,
                200,
                404,
            ]
            asked = {"origin": "https://page.example", "access-control-request-method": "GET"}
            preflight = await client.options(
                "/v2", headers={**asked, "access-control-request-headers": "x-own"}
            )
            assert preflight.status_code == 200
            shown = await client.get("/beside", headers={"origin": "https://page.example"})
            assert "x-shown" in shown.headers["access-control-expose-headers"]
