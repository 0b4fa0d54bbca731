"""What the connections of a port have in common."""

from typing import Any

import pytest

from inferstream.server.http1.exchange import Openings
from inferstream.server.http1.guard import PortLimits
from inferstream.server.http1.service import PortState, Service


async def app(scope: Any, receive: Any, send: Any) -> None: ...


class Transport:
    def __init__(self, chosen: str | None) -> None:
        self._chosen = chosen

    def get_extra_info(self, name: str) -> Any:
        return None if self._chosen is None else self

    def selected_alpn_protocol(self) -> str | None:
        return self._chosen


@pytest.mark.parametrize(("chosen", "speaks"), [("h2", True), ("http/1.1", False), (None, False)])
def test_http_2_is_negotiated_in_the_handshake(chosen: str | None, speaks: bool) -> None:
    state = PortState(Service(app), PortLimits(1, 1, 1, 1, 1), Openings([], False), "https")
    transport: Any = Transport(chosen)
    assert not state.chose_http2(transport)  # the port speaks HTTP/1 alone
    state.http2 = lambda lost, full: transport
    assert state.chose_http2(transport) is speaks


def test_direct_serving_is_opt_in() -> None:
    service = Service(app)
    assert service.direct_bytes < 0
    assert service.route(b"/") is None
