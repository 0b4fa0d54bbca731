"""Where callers put their keys."""

import pytest

from inferstream.keys.credentials import credential
from inferstream.keys.errors import Unauthenticated


@pytest.mark.parametrize(
    ("headers", "subprotocols", "found"),
    [
        ({}, (), None),
        ({"authorization": "Bearer k1"}, (), "k1"),
        ({"authorization": "bearer  k1 "}, (), "k1"),
        ({"authorization": "Basic azE="}, (), None),
        ({"authorization": "Bearer "}, (), None),
        ({"authorization": "k1"}, (), None),
        ({"x-api-key": "k1"}, (), "k1"),
        ({"x-api-key": ""}, (), None),
        ({"authorization": "Basic azE=", "x-api-key": "k1"}, (), "k1"),
        ({"authorization": "Bearer k1", "x-api-key": "k1"}, (), "k1"),
        ({}, ["chat", "inferstream.key.k1"], "k1"),
        ({}, ["chat"], None),
        ({"x-api-key": "k1"}, ["inferstream.key.k1"], "k1"),
    ],
)
def test_a_key_is_found(headers, subprotocols, found):
    assert credential(headers, subprotocols) == found


@pytest.mark.parametrize(
    ("headers", "subprotocols"),
    [
        ({"authorization": "Bearer k1", "x-api-key": "k2"}, ()),
        ({"authorization": "Bearer k1"}, ["inferstream.key.k2"]),
        ({}, ["inferstream.key.k1", "inferstream.key.k2"]),
    ],
)
def test_two_different_keys_are_refused(headers, subprotocols):
    with pytest.raises(Unauthenticated, match="two different keys"):
        credential(headers, subprotocols)
