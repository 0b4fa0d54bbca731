"""Where a GET may run a model, which pages may use a server, and under which names."""

import pytest

from inferstream.errors import PermissionDenied
from inferstream.server.rest.origins import Origins, allows_get_streams
from inferstream.settings import Settings

ENCRYPTED = {"ssl_certfile": "tls.crt", "ssl_keyfile": "tls.key"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "10.0.0.7", "_custom_rest_server_settings": {"backlog": 9}}, False),
        ({"host": "0.0.0.0", "_custom_grpc_server_settings": ENCRYPTED}, False),
        ({"host": "0.0.0.0", "_custom_rest_server_settings": ENCRYPTED}, True),
        ({"host": "0.0.0.0", "get_streams": True}, True),
        ({"get_streams": False}, False),
    ],
    ids=str,
)
def test_get_requests_run_models_only_if_hosts_are_checked(settings: dict, expected: bool) -> None:
    assert allows_get_streams(Settings(**settings)) is expected


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        (["models.example"], "models.example:8080", 200),
        (["models.example"], "a.models.example", 403),
        ([".example.org"], "a.b.example.org", 200),
        ([".example.org"], "badexample.org", 403),
        (["*"], "anything", 200),
        ([], "models.example", 403),
    ],
)
def test_setting_adds_host_names_on_loopback(allowed: list[str], host: str, status: int) -> None:
    origins = Origins(Settings(allowed_hosts=allowed))
    if status == 200:
        origins.check([(b"host", host.encode())])
        return
    with pytest.raises(PermissionDenied, match="allowed_hosts"):
        origins.check([(b"host", host.encode())])


@pytest.mark.parametrize(
    "host", [r"evil\@127.0.0.1", "a@127.0.0.1", "127.0.0.1/x", "[::1", "", "127.0.0.1#", "1 2"]
)
def test_ambiguous_host_is_refused(host: str) -> None:
    with pytest.raises(PermissionDenied):
        Origins(Settings()).check([(b"host", host.encode())])


@pytest.mark.parametrize("host", ["anything", "", "evil.example"])
def test_public_address_accepts_any_host_and_refuses_opaque_origins(host: str) -> None:
    origins = Origins(Settings(host="0.0.0.0"))
    origins.check([(b"host", host.encode())])
    with pytest.raises(PermissionDenied):
        origins.check([(b"host", host.encode()), (b"origin", b"null")])
