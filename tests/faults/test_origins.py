"""Pages in a browser that try what no page should: changing the repository of a server on the same machine."""

import json

import httpx
import pytest

from tests.serving import Running, write_model

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
def test_a_foreign_page_changes_nothing(server: Running, action: str, headers: dict) -> None:
    answer = change(server, action, headers)
    assert answer.status_code == 403
    assert answer.json()["error"]
    server.probe()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", "127.8.8.8"])
def test_the_servers_own_names_and_pages_may(server: Running, host: str) -> None:
    assert change(server, "load", {"Host": host}).status_code == 200
    assert change(server, "load", {"Host": host, "Origin": f"http://{host.lower()}"}).status_code == 200


def test_what_changes_nothing_is_open_to_every_page_and_proxy(server: Running) -> None:
    headers = {"Host": "proxy.example", "Origin": "https://page.example"}
    assert httpx.get(f"{server.url}/v2/health/ready", headers=headers).status_code == 200
    index = httpx.post(f"{server.url}/v2/repository/index", headers=headers)
    assert index.status_code == 200


def test_listed_origins_may_and_so_may_requests_to_their_hosts(start, tmp_path) -> None:
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


def test_beyond_loopback_the_host_is_what_the_network_calls_it(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text('{"host": "0.0.0.0", "allow_open_repository": true}')
    server = start(folder)

    assert change(server, "load", {"Host": "models.example"}).status_code == 200
    assert change(server, "load", {"Host": "models.example", "Origin": "https://evil"}).status_code == 403
