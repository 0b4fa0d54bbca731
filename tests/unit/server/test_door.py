"""Doors beside the ports."""

from collections.abc import Iterator

import pytest

from inferstream.dataplane import caller
from inferstream.dataplane.caller import Caller
from inferstream.server.door import Door
from inferstream.telemetry.console import TITLES
from inferstream.types import Headers


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The doors, which are as before after the test."""
    for name in ("queue", "files"):
        monkeypatch.setitem(TITLES, name, "")
    before = {*caller.DOORS}
    yield caller.DOORS
    caller.DOORS.intersection_update(before)


def test_transport_name_and_title(doors: set[str]) -> None:
    assert Caller(Headers(()), "queue").door == "http"

    class Queue(Door):
        name = "queue"
        title = "Message queue"

    class Files(Door):
        name = "files"

    assert {"queue", "files"} <= doors
    assert (TITLES["queue"], TITLES["files"]) == ("Message queue", "files")
    assert Caller(Headers(()), "queue").door == "queue"
    assert Caller(Headers(()), "websocket").door == "websocket"
