"""Places of a port, and the time limits of its connections."""

from typing import Any

import pytest

from inferstream.server.http1.guard import RESERVED, SLOWEST_BYTES_PER_SECOND, Places, PortLimits, Watch

LIMITS = PortLimits(2, 10, 20, 30, 5)


class Connection:
    """A connection in a state, which notes how it ends."""

    received = 0

    def __init__(self, **state: bool) -> None:
        self.blocked = self.closing = self.fresh = self.receiving = self.serving = self.streaming = False
        self.__dict__.update(state)
        self.ends: list[object] = []
        self.transport: Any = self
        self.unsent = 100

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.ends.append("abort")

    def time_out(self) -> None:
        self.ends.append("time out")

    def refuse(self, status: int, message: str) -> None:
        self.ends.append(status)

    def shutdown(self) -> None: ...


def test_oldest_excess_connection_is_refused() -> None:
    places = Places(2)
    held = [Connection() for _ in range(2)]
    assert all(places.enter(each) for each in held)
    beyond = [Connection() for _ in range(RESERVED + 1)]
    assert not any(places.enter(each) for each in beyond)
    assert beyond[0].ends == [503]
    assert not any(each.ends for each in (*held, *beyond[1:]))


async def test_port_is_empty_after_its_last_connection_closes() -> None:
    places, connection = Places(2), Connection()
    places.enter(connection)
    places.replace(connection, other := Connection())
    places.leave(other)
    await places.wait_until_empty()


@pytest.mark.parametrize(
    ("state", "limit", "end"),
    [
        ({"fresh": True}, 10, "time out"),
        ({"receiving": True}, 20, "time out"),
        ({}, 30, "time out"),
        ({"closing": True}, 5, "abort"),
        ({"serving": True, "blocked": True}, 5, "abort"),
    ],
)
def test_each_state_has_its_timeout(state: dict[str, bool], limit: float, end: str) -> None:
    watch, connection = Watch(LIMITS), Connection(**state)
    watch.enforce_limits(connection, 100.0)
    watch.enforce_limits(connection, 100.0 + limit)
    assert connection.ends == []
    watch.enforce_limits(connection, 100.1 + limit)
    assert connection.ends == [end]


@pytest.mark.parametrize("state", [{"serving": True}, {"serving": True, "blocked": True, "streaming": True}])
def test_serving_connection_has_no_timeout(state: dict[str, bool]) -> None:
    watch, connection = Watch(LIMITS), Connection(**state)
    watch.enforce_limits(connection, 0.0)
    watch.enforce_limits(connection, 1e6)
    assert connection.ends == []


def test_timeout_restarts_after_waiting_for_something_else() -> None:
    watch, connection = Watch(LIMITS), Connection(fresh=True)
    watch.enforce_limits(connection, 0.0)
    watch.since = None
    watch.enforce_limits(connection, 11.0)
    assert connection.ends == []


def test_fast_start_of_a_body_does_not_excuse_a_stall() -> None:
    watch, connection = Watch(LIMITS), Connection(receiving=True)
    watch.enforce_limits(connection, 100.0)
    connection.received = 60_000_000
    watch.enforce_limits(connection, 101.0)
    watch.enforce_limits(connection, 121.0)
    assert not connection.ends
    watch.enforce_limits(connection, 121.1)
    assert connection.ends == ["time out"]


def test_steady_upload_has_no_time_limit() -> None:
    watch, connection = Watch(LIMITS), Connection(receiving=True)
    for second in range(600):
        connection.received = second * SLOWEST_BYTES_PER_SECOND
        watch.enforce_limits(connection, 100.0 + second)
    assert not connection.ends
