"""Where callers put their keys."""

import pytest

from inferstream.keys.credentials import credential, split
from inferstream.keys.errors import Unauthenticated


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
def test_a_key_is_found(headers, found):
    assert credential(tuple(headers.items())) == found
    assert credential(tuple((name.encode(), value.encode()) for name, value in headers.items())) == found


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
        credential(shown)


def test_a_repeated_header_may_have_the_key_in_any_of_its_lines():
    lines = (
        ("sec-websocket-protocol", "inferstream.key.k1"),
        ("sec-websocket-protocol", "chat"),
        *((("x-api-key", "k1"),) * 2),
    )
    assert credential(lines) == "k1"


def test_headers_that_may_hold_a_key_are_taken_out_of_the_others():
    raw = [(b"x-a", b"1"), (b"authorization", b"Bearer k"), ("x-api-key", "k"), (b"x-b", b"2")]
    public, shown = split(raw)
    assert public == [(b"x-a", b"1"), (b"x-b", b"2")]
    assert shown == ((b"authorization", b"Bearer k"), ("x-api-key", "k"))


def test_headers_without_a_key_are_public_as_they_are():
    raw = [(b"x-a", b"1")]
    assert split(raw) == (raw, ())
    assert split(raw)[0] is raw


def test_pairs_of_other_servers_may_be_lists():
    _, shown = split([[b"x-api-key", b"k"]])
    assert hash(shown) == hash(((b"x-api-key", b"k"),))
