"""The choice of the engine of the gRPC port."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.server.grpc import engine
from inferstream.server.grpc.engine import build_port, engine_of, explain_engine
from inferstream.server.standin import StandIn
from inferstream.settings import Settings
from tests.certificates import Authority

KNOWN = {"grpc.max_concurrent_streams": 3}
UNKNOWN = KNOWN | {"grpc.enable_channelz": 1}


class NoRpcs:
    def find(self, path: str) -> None:
        return None


def settings(choice: str, custom: dict[str, Any] | None = None) -> Settings:
    return Settings(grpc_engine=choice, _custom_grpc_server_settings=custom)


@pytest.mark.parametrize(
    ("choice", "custom", "preferred", "expected"),
    [
        ("auto", None, "native", "native"),
        ("auto", KNOWN, "native", "native"),
        ("auto", UNKNOWN, "native", "grpcio"),
        ("auto", UNKNOWN, "grpcio", "grpcio"),
        ("native", KNOWN, "grpcio", "native"),
        ("grpcio", UNKNOWN, "native", "grpcio"),
        ("grpcio", None, "native", "grpcio"),
    ],
)
def test_the_settings_choose(
    monkeypatch: pytest.MonkeyPatch, choice: str, custom: Any, preferred: str, expected: str
) -> None:
    monkeypatch.setattr(engine, "PREFERRED", preferred)
    assert engine_of(settings(choice, custom)) == expected


def test_native_refuses_an_argument_that_it_does_not_know() -> None:
    with pytest.raises(InvalidSettings, match=r'"grpc\.enable_channelz" is unknown to grpc_engine native'):
        engine_of(settings("native", UNKNOWN))


@pytest.mark.parametrize("tls", [False, True])
async def test_nothing_is_sent_beside_the_event_loop_over_tls(tmp_path: Path, tls: bool) -> None:
    stand_in = StandIn(60)
    certificates = Authority(tmp_path).issue("server") if tls else None
    build_port(NoRpcs(), settings("native", certificates), stand_in)  # type: ignore[arg-type]
    assert len(stand_in._responders) == (0 if tls else 1)


def test_auto_says_once_why_it_is_grpcio(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "PREFERRED", "native")
    with caplog.at_level(logging.INFO, "inferstream.grpc"):
        for choice, custom in (("auto", KNOWN), ("grpcio", UNKNOWN), ("auto", UNKNOWN)):
            explain_engine(settings(choice, custom))
    assert [record.getMessage() for record in caplog.records] == [
        'grpc_engine is grpcio, because _custom_grpc_server_settings needs it: "grpc.enable_channelz"'
    ]


def test_grpcio_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("inferstream.server.grpc.grpcio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(
        MissingExtra,
        match=r'^grpc_engine grpcio needs `pip install "inferstream\[grpc\]"`: grpc is not installed$',
    ):
        build_port(NoRpcs(), settings("grpcio"))


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="grpc_engine"):
        settings("rust")


@pytest.mark.parametrize("choice", ["native", "grpcio"])
async def test_a_port_in_use_is_refused_unless_both_servers_reuse_it(choice: str) -> None:
    alone, reusing = settings(choice), settings(choice, {"grpc.so_reuseport": 1})
    first, second = (build_port(NoRpcs(), reusing) for _ in range(2))
    try:
        number = first.bind("127.0.0.1", 0)
        await first.start()
        assert second.bind("127.0.0.1", number) == number
        with pytest.raises(InvalidSettings, match=f"gRPC port {number} on 127.0.0.1 is already in use"):
            build_port(NoRpcs(), alone).bind("127.0.0.1", number)
    finally:
        await first.stop()
        await second.stop()
