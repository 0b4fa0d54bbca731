"""The time limits of a port's connections."""

from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.port import CLOSING, enforce_limits

from .conversations import Served


async def test_closing_connection_has_time_while_its_client_reads() -> None:
    served = Served()
    connection, limits = served.connection, Http2Limits()
    connection.end(ErrorCode.NO_ERROR, "")
    aborted: list[float] = []
    unsent = [300, 200, 100, 100]
    served.transport.get_write_buffer_size = lambda: unsent.pop(0)
    served.transport.abort = lambda: aborted.append(1.0)
    for step in range(1, 4):
        enforce_limits(connection, limits, None, connection.ended_at + step * 2 * CLOSING)
        assert not aborted
    enforce_limits(connection, limits, None, connection.ended_at + 8 * CLOSING)
    assert aborted, "a client that no longer reads"
