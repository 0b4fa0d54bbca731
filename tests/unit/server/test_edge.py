"""The edges of several packages see the same inferences."""

from typing import Any

import pytest

from inferstream.server import edge as edge_module
from inferstream.server.edge import edge_of
from inferstream.settings import Settings


class Named:
    """An edge that writes its name around what it wraps; its own factory."""

    def __init__(self, name: str, on: bool = True) -> None:
        self.name = name
        self.on = on

    def edge(self, settings: Settings) -> "Named | None":
        return self if self.on else None

    def http(self, serve: Any) -> Any:
        return lambda exchange: serve(f"{exchange}>{self.name}")

    def rpc(self, path: str, serve: Any) -> Any:
        return lambda message: serve(f"{message}>{path}>{self.name}")

    def socket(self, open: Any, socket: Any, path: str, headers: Any) -> Any:
        return open(f"{socket}>{path}>{self.name}")


@pytest.mark.parametrize(
    ("stages", "seen"),
    [
        ([Named("a"), Named("off", on=False), object()], ">a"),
        ([Named("a"), Named("b")], ">b>a"),
    ],
)
def test_every_edge_that_is_on_sees_an_exchange(
    stages: list[object], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_module, "loaded", lambda *_: [("", stage) for stage in stages])
    edge: Any = edge_of(Settings())
    assert edge.http(lambda exchange: exchange)("x") == f"x{seen}"
    with_path = "".join(f">/p{name}" for name in seen.replace(">", " >").split())
    assert edge.rpc("/p", lambda message: message)("x") == f"x{with_path}"
    assert edge.socket(lambda socket: socket, "x", path="/p", headers=[]) == f"x{with_path}"


def test_there_is_none_where_all_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_module, "loaded", lambda *_: [("", Named("off", on=False))])
    assert edge_of(Settings()) is None
