"""Integers of a header block: RFC 7541, section 5.1, and what no honest peer sends."""

import pytest

from inferstream.server.http2.hpack.errors import HpackError
from inferstream.server.http2.hpack.integers import encode_integer, read_continuation, read_string


@pytest.mark.parametrize(
    ("value", "bits", "written"), [(10, 5, b"\x0a"), (1337, 5, b"\x1f\x9a\x0a"), (42, 8, b"*")]
)
def test_integer_prefix_shares_a_byte_with_flags(value: int, bits: int, written: bytes) -> None:
    assert encode_integer(value, bits, 0) == written
    if len(written) > 1:
        assert read_continuation(written, 1, 31) == (value, len(written))


def test_unterminated_integer_is_refused() -> None:
    with pytest.raises(HpackError, match="ends in an integer"):
        read_continuation(b"\xff\x80", 1, 127)
    with pytest.raises(HpackError, match="continues for more than 5 bytes"):
        read_continuation(b"\xff" + b"\x80" * 6, 1, 127)


def test_string_must_fit_in_its_block() -> None:
    assert read_string(b"\x02ab", 0, 10) == (b"ab", 3)
    with pytest.raises(HpackError, match="a string has 3 bytes and the block only 2 more"):
        read_string(b"\x03ab", 0, 10)
    with pytest.raises(HpackError, match="ends before a string"):
        read_string(b"", 0, 10)
