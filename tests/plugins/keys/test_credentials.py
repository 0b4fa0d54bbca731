"""Where callers put their keys."""

import pytest

from inferstream.plugins.keys.credentials import find_credential, split
from inferstream.plugins.keys.errors import Unauthenticated


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, None),
        ({"authorization": "Bearer k1"}, "k1"),
        ({"authorization": "bearer  k1 "}, "k1"),
        ({"authorization": "Basic azE="}, None),
        ({"authorization": "Bearer "}, None),
        ({"authorization": "k1"}, None),
        ({"x-api-key": "k1"}, "k1"),
        ({"x-api-key": ""}, None),
        ({"authorization": "Basic azE=", "x-api-key": "k1"}, "k1"),
        ({"authorization": "Bearer k1", "x-api-key": "k1"}, "k1"),
        ({"sec-websocket-protocol": "chat, inferstream.key.k1"}, "k1"),
        ({"sec-websocket-protocol": "chat"}, None),
        ({"x-api-key": "k1", "sec-websocket-protocol": "inferstream.key.k1"}, "k1"),
    ],
)
def test_key_is_found(headers, found):
    assert find_credential(tuple(headers.items())) == found
    assert find_credential(tuple((name.encode(), value.encode()) for name, value in headers.items())) == found


@pytest.mark.parametrize(
    "shown",
    [
        (("authorization", "Bearer k1"), ("x-api-key", "k2")),
        (("authorization", "Bearer k1"), ("sec-websocket-protocol", "inferstream.key.k2")),
        (("sec-websocket-protocol", "inferstream.key.k1,inferstream.key.k2"),),
        (("sec-websocket-protocol", "inferstream.key.k1"), ("sec-websocket-protocol", "inferstream.key.k2")),
        (("x-api-key", "k1"), ("x-api-key", "k2")),
        (("authorization", "Bearer k1"), ("authorization", "Bearer k2")),
    ],
)
def test_two_different_keys_are_refused(shown):
    with pytest.raises(Unauthenticated, match="two different keys"):
        find_credential(shown)


def test_any_line_of_repeated_header_can_hold_key():
    lines = (
        ("sec-websocket-protocol", "inferstream.key.k1"),
        ("sec-websocket-protocol", "chat"),
        *((("x-api-key", "k1"),) * 2),
    )
    assert find_credential(lines) == "k1"


def test_credential_headers_are_removed():
    raw = [(b"x-a", b"1"), (b"authorization", b"Bearer k"), ("x-api-key", "k"), (b"x-b", b"2")]
    public, shown = split(raw)
    assert public == [(b"x-a", b"1"), (b"x-b", b"2")]
    assert shown == ((b"authorization", b"Bearer k"), ("x-api-key", "k"))


def test_headers_without_key_are_unchanged():
    raw = [(b"x-a", b"1")]
    assert split(raw) == (raw, ())
    assert split(raw)[0] is raw


def test_header_pairs_can_be_lists():
    _, shown = split([[b"x-api-key", b"k"]])
    assert hash(shown) == hash(((b"x-api-key", b"k"),))
