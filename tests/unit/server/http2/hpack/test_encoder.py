"""Header blocks without a dynamic table."""

from inferstream.server.http2.hpack.decoder import Decoder
from inferstream.server.http2.hpack.encoder import encode


def test_static_table_header_is_one_byte() -> None:
    assert encode([(b":status", b"200")]) == b"\x88"


def test_known_name_is_indexed_and_secret_is_never_indexed() -> None:
    assert encode([(b"content-type", b"a")]) == b"\x0f\x10\x01a"
    assert encode([(b"set-cookie", b"a")])[0] & 0xF0 == 0x10


def test_new_name_and_long_value_are_literal() -> None:
    headers = ((b"x-new", b"v" * 300), (b"x-empty", b""))
    assert Decoder(max_list_size=4096).decode(encode(headers)) == headers
