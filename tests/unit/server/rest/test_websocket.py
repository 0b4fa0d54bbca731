"""The upgrade to a WebSocket."""

from typing import Any

import pytest

from inferstream import Application
from inferstream.server.edge import Edge, OpenSocket
from inferstream.server.rest.websocket import ROUTE, WebSocketDoor, choose_subprotocol


@pytest.mark.parametrize(
    ("path", "groups"),
    [
        ("/v2/models/m/stream", ("m", None)),
        ("/v2/models/a/b/stream", ("a/b", None)),
        ("/v2/models/m/versions/2/stream", ("m", "2")),
    ],
)
def test_path_has_model_and_optional_version(path: str, groups: tuple[str, str | None]) -> None:
    match = ROUTE.fullmatch(path)
    assert match is not None
    assert match.groups() == groups
    assert ROUTE.fullmatch("/v2/models/stream") is None


def test_subprotocol_with_key_is_never_selected() -> None:
    assert choose_subprotocol(["inferstream.key.secret", "inferstream"]) == "inferstream"
    assert choose_subprotocol(["inferstream.key.secret"]) is None


class Named(Edge):
    """An edge that writes its name around what it opens."""

    def __init__(self, name: str) -> None:
        self.name = name

    def socket(self, open: OpenSocket) -> OpenSocket:
        def named(socket: Any, path: str, *rest: Any) -> Any:
            return open(f"{socket}>{path}>{self.name}", path, *rest)

        return named


async def test_last_edge_is_outermost_for_websockets(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Any = lambda self, socket, path, headers, request_id: socket  # noqa: E731
    monkeypatch.setattr(WebSocketDoor, "_open", opened)
    async with Application([]) as application:
        edges = [Named("a"), Named("b")]
        door: Any = WebSocketDoor(
            application._backend.dataplane, application.settings, application.meters, edges
        )
    assert door.open("x", "/p", [], None) == "x>/p>b>/p>a"
