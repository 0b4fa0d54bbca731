"""Pages in a browser that try what no page should: changing the repository of a server on the same machine."""

import hashlib
import json
import secrets

import httpx
import pytest

from tests.serving import Running, fp32, write_model

FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Host": "evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost.evil.example"},
    {"Host": "[::1"},
    {"Host": ""},
]


def change(server: Running, action: str, headers: dict) -> httpx.Response:
    return httpx.post(f"{server.url}/v2/repository/models/echo/{action}", headers=headers, timeout=20)


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("action", ["load", "unload"])
def test_foreign_origin_changes_nothing(server: Running, action: str, headers: dict) -> None:
    answer = change(server, action, headers)
    assert answer.status_code == 403
    assert answer.json()["error"]
    server.probe()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", "127.8.8.8"])
def test_own_names_and_pages_are_allowed(server: Running, host: str) -> None:
    assert change(server, "load", {"Host": host}).status_code == 200
    assert change(server, "load", {"Host": host, "Origin": f"http://{host.lower()}"}).status_code == 200


READS = [
    ("GET", "/v2"),
    ("GET", "/v2/models"),
    ("GET", "/v2/models/echo"),
    ("GET", "/v2/models/echo/ready"),
    ("GET", "/v2/models/echo/stats"),
    ("GET", "/v2/docs/dataplane.json"),
    ("GET", "/v1/models"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/proto"),
    ("GET", "/nowhere"),
    ("POST", "/v2/repository/index"),
    ("DELETE", "/v2/requests/a"),
    ("GET", "/v2/access"),
    ("GET", "/v2/systemsharedmemory/status"),
]
RUNS = [
    "/v2/models/echo/infer",
    "/v2/models/echo/infer_stream",
    "/v2/models/echo/generate",
    "/v2/models/echo/generate_stream",
    "/v2/systemsharedmemory/region/r/register",
    "/v2/systemsharedmemory/unregister",
    "/v1/chat/completions",
    "/v1/completions",
    "/generate",
    "/mcp",
    "/rpc",
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_foreign_origin_reads_no_response(server: Running, headers: dict) -> None:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        for method, path in READS:
            answer = client.request(method, path, headers=headers)
            assert (path, answer.status_code) == (path, 403)
        scraped = client.get(f"http://127.0.0.1:{server.metrics_port}/metrics", headers=headers)
        assert scraped.status_code == 403


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_foreign_origin_runs_no_model(server: Running, headers: dict) -> None:
    """With `text/plain` a page asks for no leave before it posts."""
    body = json.dumps(fp32([1.0]))
    with httpx.Client(base_url=server.url, timeout=20) as client:
        for path in RUNS:
            for more in ({}, {"Expect": "100-continue"}):  # directly, and through the application
                answer = client.post(
                    path, content=body, headers={"Content-Type": "text/plain", **headers, **more}
                )
                # JSON-RPC has its errors in the body.
                status = answer.json()["error"]["data"]["code"] if path == "/rpc" else answer.status_code
                assert (path, status) in ((path, 403), (path, "permission_denied"))
        call = client.post(
            "/inference.GRPCInferenceService/ServerLive",
            content=b"\0\0\0\0\0",
            headers={"Content-Type": "application/grpc-web", **headers},
        )
        assert b"grpc-status:7" in call.content


ROUTED = """
from inferstream import MLModel, custom_handler


class Routed(MLModel):
    @custom_handler(rest_path="/routed")
    async def route(self) -> str:
        return "served"
"""


def test_foreign_origin_is_refused_even_with_key(start, tmp_path) -> None:
    folder, key = tmp_path / "models", f"ifs_page_{secrets.token_urlsafe(32)}"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "routed", "routed.Routed", ROUTED)
    scopes = ["infer", "stream", "repository", "metrics", "docs", "access"]
    entry = {"id": "page", "principal": "page", "sha256": hashlib.sha256(key.encode()).hexdigest()}
    document = {"version": 1, "keys": [{**entry, "scopes": scopes, "models": ["*"]}]}
    (tmp_path / "keys.json").write_text(json.dumps(document))
    (folder / "settings.json").write_text(json.dumps({"keys_file": str(tmp_path / "keys.json")}))
    server, body = start(folder), json.dumps(fp32([1.0]))
    with httpx.Client(base_url=server.url, timeout=20, headers={"X-API-Key": key}) as client:
        asked = [*READS, ("POST", "/routed"), *(("POST", path) for path in RUNS if path != "/rpc")]
        for headers in FOREIGN:
            for keyed in ({}, {"X-API-Key": ""}):
                for method, path in asked:
                    answer = client.request(method, path, content=body, headers=headers | keyed)
                    assert (path, answer.status_code) == (path, 403), headers
                    assert "served" not in answer.text
        assert client.post("/routed").json() == "served"
        assert client.post("/v2/models/echo/infer", content=body).status_code == 200
        assert client.post("/routed", headers={"X-API-Key": ""}).status_code == 401


def test_origin_is_checked_on_every_request(server: Running) -> None:
    path, body = "/v2/models/echo/infer", fp32([1.0])
    with httpx.Client(base_url=server.url, timeout=20) as client:
        for headers, status in ({}, 200), ({}, 200), (FOREIGN[0], 403), (FOREIGN[3], 403), ({}, 200):
            assert client.post(path, json=body, headers=headers).status_code == status


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/"])
def test_probes_are_open_to_every_origin_and_host(server: Running, path: str) -> None:
    headers = {"Host": "proxy.example", "Origin": "https://page.example"}
    assert httpx.get(f"{server.url}{path}", headers=headers).status_code == 200


def test_listed_origins_and_their_hosts_are_allowed(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    cors = {"allow_origins": ["https://models.example"], "allow_origin_regex": "https://.*\\.lab\\.example"}
    (folder / "settings.json").write_text(json.dumps({"cors_settings": cors}))
    server = start(folder)

    assert change(server, "load", {"Origin": "https://models.example"}).status_code == 200
    assert change(server, "load", {"Origin": "https://a.lab.example"}).status_code == 200
    assert change(server, "load", {"Host": "models.example"}).status_code == 200
    assert change(server, "load", {"Host": "a.lab.example"}).status_code == 200
    assert change(server, "load", {"Origin": "https://a.lab.example.evil"}).status_code == 403


def test_any_host_is_allowed_beyond_loopback(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text('{"host": "0.0.0.0", "allow_open_repository": true}')
    server = start(folder)

    assert change(server, "load", {"Host": "models.example"}).status_code == 200
    assert change(server, "load", {"Host": "models.example", "Origin": "https://evil"}).status_code == 403
