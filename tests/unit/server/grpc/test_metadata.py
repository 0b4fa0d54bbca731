"""Headers as metadata, and metadata as headers."""

import base64
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.server.grpc.metadata import encode_metadata, extract_metadata, parse_timeout, percent_encode

NAMES = st.from_regex(r"x[0-9a-z_.-]{0,8}", fullmatch=True).filter(lambda name: not name.endswith("-bin"))
PAIRS = st.one_of(
    st.tuples(NAMES, st.from_regex(r"[ -~]{0,20}", fullmatch=True)),
    st.tuples(NAMES.map(lambda name: f"{name}-bin"), st.binary(max_size=20)),
)


@given(st.lists(PAIRS, max_size=6))
def test_metadata_round_trips_through_headers(metadata: list[tuple[str, str | bytes]]) -> None:
    headers = encode_metadata(metadata)
    assert not any(value.endswith(b"=") for name, value in headers if name.endswith(b"-bin"))
    assert extract_metadata(headers) == tuple(metadata)


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=4), st.booleans())
def test_header_holds_several_binary_values(values: list[bytes], padded: bool) -> None:
    texts = [base64.b64encode(value) for value in values]
    joined = b", ".join(text if padded else text.rstrip(b"=") for text in texts)
    assert extract_metadata([(b"x-bin", joined)]) == tuple(("x-bin", value) for value in values)


@pytest.mark.parametrize("value", [b"a", b"Y!==", b"YQ==YQ==", b"YQ\n==", b"=", "ü".encode()])
def test_invalid_base64_binary_value_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidRequest, match='metadata "x-bin" is not base64'):
        extract_metadata([(b"x-bin", value)])


def test_protocol_headers_are_not_metadata() -> None:
    headers = [
        (b":path", b"/a/b"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"grpc-timeout", b"1S"),
        (b"grpc-encoding", b"gzip"),
        (b"grpc-accept-encoding", b"gzip"),
        (b"content-length", b"5"),
        (b"user-agent", b"grpc-go/1.72.0"),
        (b"x-request-id", b"7"),
        (b"x-request-id", b"8"),
    ]
    expected = (("user-agent", "grpc-go/1.72.0"), ("x-request-id", "7"), ("x-request-id", "8"))
    assert extract_metadata(headers) == expected


def test_utf8_and_other_bytes_become_strings() -> None:
    assert extract_metadata([(b"a", "ü".encode()), (b"b", b"\xfc")]) == (("a", "ü"), ("b", "ü"))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"100m", 0.1),
        (b"5u", 5e-6),
        (b"7n", 7e-9),
        (b"0n", 0),
        (b"99999999S", 99_999_999),
    ],
)
def test_timeout_is_parsed_as_seconds(value: bytes, seconds: float) -> None:
    assert parse_timeout(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", [b"", b"S", b"1", b"1s", b"-1S", b"1.5S", b"100000000S", b" 1S", b"1 S", b"\xb2S"]
)
def test_malformed_timeout_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidRequest, match="grpc-timeout"):
        parse_timeout(value)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_status_message_is_encoded_as_printable_ascii(message: str) -> None:
    encoded = percent_encode(message)
    assert all(0x20 <= byte < 0x7F for byte in encoded)
    assert unquote(encoded.decode()) == message


def test_plain_status_message_is_unchanged() -> None:
    assert percent_encode('input "x": 5 values, got ~6') == b'input "x": 5 values, got ~6'
    assert percent_encode("100% ü\n") == b"100%25 %C3%BC%0A"
