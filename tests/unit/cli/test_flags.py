"""Ports of `server start`, as its flags, its files and BlazeRPC's customs say."""

import json
from pathlib import Path

import pytest
import typer

from inferstream.cli.flags import Flags, tls_options
from inferstream.errors import InvalidSettings
from inferstream.settings import Settings


def ports(flags: Flags, folder: Path, classic: bool) -> tuple[int, int]:
    settings = flags.load_settings(folder, classic)
    return settings.http_port, settings.grpc_port


@pytest.mark.parametrize(
    ("flags", "classic", "others"),
    [
        (Flags({}), (8080, 50051), (8080, 8081)),
        (Flags({}, {"port": 7}), (8080, 7), (7, 8081)),
        (Flags({"grpc_port": 7}), (8080, 7), (8080, 7)),
        (Flags({"http_port": 6}, {"port": 6, "transport": "both"}), (6, 6), (6, 8081)),
        (Flags({}, {"transport": "grpc"}), (0, 50051), (0, 8081)),
        (Flags({}, {"transport": "jsonrpc"}), (8080, 0), (8080, 0)),
        (Flags({}, {"port": 7, "transport": "grpc"}), (0, 7), (7, 8081)),
        (Flags({"http_port": 6}, {"transport": "jsonrpc"}), (6, 0), (6, 0)),
    ],
    ids=str,
)
def test_port_flags(tmp_path: Path, flags: Flags, classic: tuple[int, int], others: tuple[int, int]) -> None:
    assert (ports(flags, tmp_path, True), ports(flags, tmp_path, False)) == (classic, others)


def test_port_settings_override_transport_flag_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERSTREAM_HTTP_PORT", "5")
    (tmp_path / "settings.json").write_text(json.dumps({"grpc_port": 4}))
    for transport in (None, "grpc", "jsonrpc", "both"):
        assert ports(Flags({}, {"transport": transport}), tmp_path, True) == (5, 4)


def test_invalid_flags_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match='--transport "http" is not grpc, jsonrpc or both'):
        Flags({}, {"transport": "http"}).load_settings(tmp_path, True)
    with pytest.raises(InvalidSettings, match="--port and --grpc-port are the same port here"):
        Flags({"grpc_port": 1}, {"port": 2}).load_settings(tmp_path, True)
    with pytest.raises(InvalidSettings, match="--port and --http-port are the same port"):
        Flags({"http_port": 1}, {"port": 2}).load_settings(tmp_path, False)


def test_plugin_flag_sets_a_setting(tmp_path: Path) -> None:
    assert Flags({}, {"offline": None, "sources": True}).start(False).flags == {"sources": True}
    with pytest.raises(InvalidSettings, match="--no-such: the plug-in that adds this flag has no setting"):
        Flags({}, {"no_such": "x"}).load_settings(tmp_path, False)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (Flags({"parallel_workers": -1}), "--workers"),
        (Flags({"http_port": -1}), "--http-port"),
        (Flags({}, {"port": -1}), "--port"),
        (Flags({}, {"kafka_group": 1}), "--kafka-group"),
    ],
    ids=str,
)
def test_flag_error_names_the_flag_and_no_file(tmp_path: Path, flags: Flags, named: str) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"strict": True}))
    with pytest.raises(InvalidSettings, match=f"^{named} (-1|1): must be"):
        flags.load_settings(tmp_path, False)


def test_certificate_applies_to_all_ports_with_their_options(tmp_path: Path) -> None:
    custom = {"_custom_rest_server_settings": {"backlog": 7, "ssl_keyfile": "old"}}
    (tmp_path / "settings.json").write_text(json.dumps(custom))
    options = tls_options(Path("cert.pem"), Path("/keys/key.pem"))
    settings = Flags({}, tls=options).load_settings(tmp_path, False)
    both = {"ssl_certfile": str(Path.cwd() / "cert.pem"), "ssl_keyfile": "/keys/key.pem"}
    assert settings.custom_rest_server_settings == {"backlog": 7, **both}
    assert settings.custom_grpc_server_settings == settings.custom_metrics_server_settings == both
    assert tls_options(Path("/cert.pem"), None) == {"ssl_certfile": "/cert.pem"}
    assert tls_options(None, None) == {}
    with pytest.raises(typer.BadParameter):
        tls_options(None, Path("key.pem"))


@pytest.mark.parametrize(
    ("given", "flags", "ports"),
    [
        ({}, {}, (8080, None, 8080)),
        ({"http_port": 9}, {"grpc_port": 9}, (9, None, 9)),
        ({"metrics_port": 7}, {"http_port": 9}, (9, None, 7)),
        ({"grpc_port": 5}, {}, (8080, None, 8080)),
    ],
)
def test_single_port_is_the_rest_port(tmp_path: Path, given: dict, flags: dict, ports: tuple) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(given))
    settings = Flags(flags, one_port=True).load_settings(tmp_path, False)
    assert (settings.http_port, settings.grpc_port, settings.metrics_port) == ports
    assert settings.one_port


def test_single_port_with_separate_grpc_port_is_two_ports(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="--one-port and --grpc-port are two ports"):
        Flags({"grpc_port": 9}, one_port=True).load_settings(tmp_path, False)


def test_two_free_ports_are_different() -> None:
    assert not Settings(http_port=0, grpc_port=0).one_port
    assert Settings(http_port=0, grpc_port=None).one_port


@pytest.mark.parametrize("variable", ["AIP_HTTP_PORT", "SAGEMAKER_BIND_TO_PORT"])
def test_platform_port_is_used_unless_a_port_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "7")
    assert ports(Flags({}), tmp_path, False) == (7, 8081)
    assert ports(Flags({"http_port": 6}), tmp_path, False) == (6, 8081)
    monkeypatch.setenv("INFERSTREAM_HTTP_PORT", "5")
    assert ports(Flags({}), tmp_path, False) == (5, 8081)
    monkeypatch.delenv("INFERSTREAM_HTTP_PORT")
    monkeypatch.setenv(variable, "http")
    with pytest.raises(InvalidSettings, match=f"{variable}.*'http' is no port"):
        Flags({}).load_settings(tmp_path, False)


def test_model_name_flag_applies_to_the_only_model(tmp_path: Path) -> None:
    settings = Flags({}, model_name="iris").load_settings(tmp_path, False)
    assert settings.model_repository_implementation_args == {"name": "iris"}
