"""The same headers, and the same refusals, as the package `hpack`.

We are stricter in one point: an integer continues for at most five bytes. The package reads any number of them.
"""

import hpack
import pytest
from hpack.exceptions import HPACKError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given, settings
from hypothesis import strategies as st

from inferstream.server.http2.hpack import Decoder, HeaderListTooLarge, HpackError, encode, huffman

HUFFMAN = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
TEXT = st.one_of(
    st.binary(max_size=40),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60).map(str.encode),
    st.binary(min_size=120, max_size=300),
)
NAME = st.one_of(
    st.sampled_from([b":path", b":status", b"content-type", b"set-cookie", b"x-request-id"]), TEXT
)
HEADERS = st.lists(st.tuples(NAME, TEXT), max_size=8)
COMMON = st.lists(
    st.sampled_from(
        [
            (b":method", b"POST"),
            (b":path", b"/a"),
            (b"x-id", b"1"),
            (b"x-id", b"2"),
            (b"x-long", b"v" * 900),
            (b"", b""),
        ]
    ),
    max_size=6,
)


def theirs(decoder: hpack.Decoder, block: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, value) for name, value in decoder.decode(block, raw=True))  # type: ignore[misc]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.one_of(HEADERS, COMMON), st.booleans(), st.sampled_from([None, 0, 64, 500, 4096])),
        max_size=8,
    )
)
def test_we_decode_blocks_of_the_reference_encoder(conversation: list) -> None:
    """One conversation: headers repeat, the table fills and is resized, and Huffman's code is on and off."""
    encoder, decoder = hpack.Encoder(), Decoder(max_list_size=2**20)
    for headers, coded, table_size in conversation:
        if table_size is not None:
            encoder.header_table_size = table_size
        block = encoder.encode(headers, huffman=coded)
        assert decoder.decode(block) == tuple(headers)


@settings(deadline=None)
@given(st.lists(HEADERS, max_size=4))
def test_reference_decoder_reads_our_blocks(lists: list) -> None:
    ours, their = Decoder(max_list_size=2**20), hpack.Decoder(2**20)
    for headers in lists:
        block = encode(headers)
        assert ours.decode(block) == theirs(their, block) == tuple(headers)


def test_never_indexed_values() -> None:
    headers = [
        (b"set-cookie", b"a=b"),
        (b"authorization", b"Bearer x"),
        (b"x-request-id", b"7"),
        (b":status", b"200"),
    ]
    decoded = hpack.Decoder().decode(encode(headers), raw=True)
    assert [header.indexable for header in decoded] == [False, False, True, True]


@settings(deadline=None)
@given(TEXT)
def test_huffman_code_matches_reference(text: bytes) -> None:
    assert huffman.decode(HUFFMAN.encode(text)) == text


def test_every_huffman_symbol_at_every_bit_offset() -> None:
    for symbol in range(256):
        for before in range(8):
            text = b"0" * before + bytes((symbol,)) + b"&"
            assert huffman.decode(HUFFMAN.encode(text)) == text


@settings(deadline=None)
@given(st.binary(max_size=24))
def test_arbitrary_bytes_as_huffman_code(data: bytes) -> None:
    try:
        expected = hpack.huffman_table.decode_huffman(data)
    except HPACKError:
        with pytest.raises(HpackError):
            huffman.decode(data)
    else:
        assert huffman.decode(data) == expected


def alike(ours: Decoder, their: hpack.Decoder, block: bytes) -> bool:
    """Ask both. False: the block was refused, so the connection would end."""
    try:
        decoded = ours.decode(block)
    except HpackError as error:
        if "continues" not in str(error):
            with pytest.raises(HPACKError):
                theirs(their, block)
        return False
    assert decoded == theirs(their, block)
    return True


@settings(deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=4))
def test_arbitrary_bytes(blocks: list[bytes]) -> None:
    ours, their = Decoder(max_list_size=2**20), hpack.Decoder(2**20)
    for block in blocks:
        if not alike(ours, their, block):
            break


@settings(deadline=None)
@given(st.lists(st.one_of(HEADERS, COMMON), min_size=1, max_size=5), st.data())
def test_blocks_with_a_corrupted_byte(lists: list, data: st.DataObject) -> None:
    encoder, ours, their = hpack.Encoder(), Decoder(max_list_size=2**20), hpack.Decoder(2**20)
    for headers in lists:
        block = bytearray(encoder.encode(headers))
        for _ in range(data.draw(st.integers(0, 2))):
            if block:
                block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
        if not alike(ours, their, bytes(block)):
            break


@settings(deadline=None)
@given(st.lists(COMMON, min_size=1, max_size=6), st.integers(0, 2000))
def test_header_list_limit(lists: list, limit: int) -> None:
    """A list over the limit is refused, and the tables are right for the blocks after it."""
    encoder, ours = hpack.Encoder(), Decoder(max_list_size=limit)
    for headers in lists:
        size = sum(len(name) + len(value) + 32 for name, value in headers)
        for _ in range(3):  # so that the last block may be one that was kept
            block = encoder.encode(headers)
            if size <= limit:
                assert ours.decode(block) == tuple(headers)
            else:
                with pytest.raises(HeaderListTooLarge, match=f"more than {limit} bytes"):
                    ours.decode(block)
