"""Lists in columns of BYTES."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.codecs import (
    Base64Codec,
    DatetimeCodec,
    StringCodec,
)
from inferstream.codecs.json import JSONCodec
from inferstream.types import RequestInput

from .test_numpy import WIRES

MOMENT = datetime(2026, 11, 21, 5, 30, tzinfo=UTC)


ROUND_TRIPS = [
    (StringCodec, ["a", "é🙂", ""]),
    (Base64Codec, [b"\x00\xff", b""]),
    (DatetimeCodec, [MOMENT]),
    (JSONCodec, [{"a": [1]}, {}]),
]


@pytest.mark.parametrize(("codec", "payload"), ROUND_TRIPS)
@pytest.mark.parametrize("use_bytes", [True, False])
def test_lists_are_sent_as_a_column(codec, payload, use_bytes: bool) -> None:
    for tensor in (
        codec.encode_input("x", payload, use_bytes=use_bytes),
        codec.encode_output("x", payload, use_bytes=use_bytes),
    ):
        assert (tensor.shape, tensor.datatype) == ([len(payload), 1], "BYTES")
        assert tensor.parameters.content_type == codec.ContentType
        assert isinstance(tensor.data[0], bytes if use_bytes else str)
    assert codec.decode_input(RequestInput.parse_raw(codec.encode_input("x", payload).json())) == payload
    assert codec.decode_output(codec.encode_output("x", payload)) == payload


TEXT = st.text(st.characters(codec="utf-8"))


TIMES = st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-3))]))


CELLS = st.dictionaries(
    TEXT, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT | st.lists(TEXT)
)


LISTS = [
    (StringCodec, TEXT),
    (Base64Codec, st.binary()),
    (DatetimeCodec, TIMES),
    (JSONCodec, CELLS),
]


@pytest.mark.parametrize(("codec", "values"), LISTS, ids=[codec.ContentType for codec, _ in LISTS])
def test_lists_round_trip(codec, values) -> None:
    @given(st.lists(values, max_size=4), st.booleans())
    def check(payload: list, use_bytes: bool) -> None:
        for name, wire in WIRES.items():
            tensor = codec.encode_input("x", payload, use_bytes=use_bytes)
            assert tensor.shape == [len(payload), 1]
            assert codec.decode_input(wire(tensor)) == payload, name

    check()
