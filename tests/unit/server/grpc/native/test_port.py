"""The gRPC port: how it is bound."""

from typing import Any

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.grpc.native.port import NativePort
from inferstream.settings import Settings


class NoRpcs:
    def find(self, path: str) -> None:
        return None


def port(custom: dict[str, Any] | None = None) -> NativePort:
    return NativePort(NoRpcs(), Settings(_custom_grpc_server_settings=custom))  # type: ignore[arg-type]


async def test_port_in_use_is_refused_unless_both_servers_reuse_it() -> None:
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
