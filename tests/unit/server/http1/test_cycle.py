"""The scope of a request for an ASGI application."""

import pytest

from inferstream.server.connections import SCOPE_KEY, OwnConnection
from inferstream.server.http1.cycle import build_scope
from inferstream.server.http1.heads import RequestRefused, parse_head


class Connection(OwnConnection):
    scheme = "http"
    client = ("127.0.0.1", 7)
    server = ("127.0.0.1", 80)


def test_scope_has_decoded_and_raw_path() -> None:
    connection = Connection()
    scope = build_scope(connection, parse_head(b"GET /a%20b?c=%64 HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a b", b"/a%20b", b"c=%64")
    assert (scope["client"], scope["server"], scope["scheme"]) == (
        Connection.client,
        Connection.server,
        "http",
    )
    assert scope["headers"] == [(b"host", b"x")]
    assert scope[SCOPE_KEY] is connection


def test_invalid_target_is_refused() -> None:
    head = parse_head(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head.target = b"http://"
    with pytest.raises(RequestRefused) as refused:
        build_scope(Connection(), head)
    assert refused.value.status == 400
