"""Strings in the Huffman code: RFC 7541, appendix B."""

import pytest

from inferstream.server.http2.hpack.errors import HpackError
from inferstream.server.http2.hpack.huffman import decode


def test_rfc_examples() -> None:
    assert decode(bytes.fromhex("f1e3c2e5f23a6ba0ab90f4ff")) == b"www.example.com"
    assert decode(bytes.fromhex("a8eb10649cbf")) == b"no-cache"
    assert decode(b"") == b""


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x18", b"\xa8\xeb\x10\x64\x9c\xbf\xff"])
def test_end_of_string_symbol_and_invalid_padding_are_refused(data: bytes) -> None:
    with pytest.raises(HpackError, match="holds the symbol EOS or ends in wrong padding"):
        decode(data)
