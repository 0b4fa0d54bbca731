"""Where callers put their keys."""

import pytest

from inferstream.keys.credentials import WithoutKeys, credential, without_keys
from inferstream.keys.errors import Unauthenticated
from inferstream.types import Headers


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
    assert credential(headers) == found


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer k1", "x-api-key": "k2"},
        {"authorization": "Bearer k1", "sec-websocket-protocol": "inferstream.key.k2"},
        {"sec-websocket-protocol": "inferstream.key.k1,inferstream.key.k2"},
    ],
)
def test_two_different_keys_are_refused(headers):
    with pytest.raises(Unauthenticated, match="two different keys"):
        credential(headers)


def test_model_code_gets_no_key():
    raw = [(b"x-a", b"1"), (b"authorization", b"Bearer k"), (b"x-api-key", b"k"), (b"x-b", b"2")]
    headers = WithoutKeys(Headers(raw))
    assert dict(headers) == {"x-a": "1", "x-b": "2"}
    assert headers.raw == without_keys(raw) == [(b"x-a", b"1"), (b"x-b", b"2")]
