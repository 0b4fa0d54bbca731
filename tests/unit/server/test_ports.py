"""Sockets that are bound before models load."""

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.ports import bind


def test_port_in_use_is_named() -> None:
    with bind("127.0.0.1", 0, "REST") as first:
        port = first.getsockname()[1]
        with pytest.raises(InvalidSettings, match=f"metrics port {port} on 127.0.0.1 is already in use"):
            bind("127.0.0.1", port, "metrics")


def test_shared_sockets_listen_on_one_port() -> None:
    with bind("127.0.0.1", 0, "REST", shared=True) as first:
        with bind("127.0.0.1", first.getsockname()[1], "REST", shared=True) as second:
            assert first.getsockname() == second.getsockname()
