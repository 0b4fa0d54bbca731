"""The gRPC port: how it is bound, and what answers its PINGs while the event loop is held."""

from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.grpc.native.port import NativePort
from inferstream.server.standin import StandIn
from inferstream.settings import Settings
from tests.certificates import Authority


class NoRpcs:
    def find(self, path: str) -> None:
        return None


def port(custom: dict[str, Any] | None = None, stand_in: StandIn | None = None) -> NativePort:
    return NativePort(NoRpcs(), Settings(_custom_grpc_server_settings=custom), stand_in)  # type: ignore[arg-type]


@pytest.mark.parametrize("tls", [False, True])
async def test_nothing_is_sent_beside_the_event_loop_over_tls(tmp_path: Path, tls: bool) -> None:
    stand_in = StandIn(60)
    port(Authority(tmp_path).issue("server") if tls else None, stand_in)
    assert len(stand_in._responders) == (0 if tls else 1)


async def test_a_port_in_use_is_refused_unless_both_servers_reuse_it() -> None:
    first, second = (port({"grpc.so_reuseport": 1}) for _ in range(2))
    try:
        number = first.bind("127.0.0.1", 0)
        await first.start()
        assert second.bind("127.0.0.1", number) == number
        with pytest.raises(InvalidSettings, match=f"gRPC port {number} on 127.0.0.1 is already in use"):
            port().bind("127.0.0.1", number)
    finally:
        await first.stop()
        await second.stop()
