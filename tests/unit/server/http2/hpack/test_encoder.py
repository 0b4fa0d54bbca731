"""Header blocks without a dynamic table."""

from inferstream.server.http2.hpack.decoder import Decoder
from inferstream.server.http2.hpack.encoder import encode


def test_a_header_of_the_static_table_is_one_byte() -> None:
    assert encode([(b":status", b"200")]) == b"\x88"


def test_a_known_name_is_an_index_and_a_secret_is_never_indexed() -> None:
    assert encode([(b"content-type", b"a")]) == b"\x0f\x10\x01a"
    assert encode([(b"set-cookie", b"a")])[0] & 0xF0 == 0x10


def test_a_new_name_and_a_long_value_are_literal() -> None:
    headers = ((b"x-new", b"v" * 300), (b"x-empty", b""))
    assert Decoder(max_list_size=4096).decode(encode(headers)) == headers
