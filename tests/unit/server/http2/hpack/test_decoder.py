"""Malformed blocks, and what a hostile peer may make the decoder keep and do."""

import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferstream.server.http2.hpack import Decoder, HeaderListTooLarge, HpackError, TooManyHeaders
from inferstream.server.http2.hpack.decoder import MAX_EXCESS, MAX_KEPT_SIZE
from tests.conformance.http2 import wire


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("80", "index 0 names no header"),
        ("be", "index 62 names no header"),
        ("7e0161", "index 62 names no header"),
        ("ff8000", "index 127 names no header"),
        ("ff", "the block ends in an integer"),
        ("ffff", "the block ends in an integer"),
        ("ff80808080808000", "an integer continues for more than 5 bytes"),
        ("3fffffffffffff7f", "an integer continues for more than 5 bytes"),
        ("007f8080808080", "an integer continues for more than 5 bytes"),
        ("40", "the block ends before a string"),
        ("4001", "a string has 1 bytes and the block only 0 more"),
        ("400161", "the block ends before a string"),
        ("40016105", "a string has 5 bytes and the block only 0 more"),
        ("007fffffffff0f61", "and the block only 1 more"),
        ("8220", "the size of the dynamic table changes after the first header"),
        ("3fe21f", "a dynamic table of 4097 bytes is larger than 4096"),
        ("0481ff", "wrong padding"),  # eight bits of padding
        ("048118", "wrong padding"),  # padding that is not of ones: "0", then 000
        ("0484ffffffff", "EOS"),
        ("0485ffffffffff", "EOS"),
    ],
)
def test_malformed_blocks_are_refused(block: str, reason: str) -> None:
    with pytest.raises(HpackError, match=reason):
        Decoder().decode(bytes.fromhex(block))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=400), max_size=5))
def test_arbitrary_bytes_raise_only_hpack_errors(blocks: list[bytes]) -> None:
    decoder = Decoder(max_list_size=300)
    for block in blocks:
        try:
            decoder.decode(block)
        except HeaderListTooLarge:
            continue
        except HpackError:
            break


def literal(name: bytes, value: bytes, *, indexed: bool) -> bytes:
    assert len(name) < 127
    length = (
        bytes((len(value),))
        if len(value) < 127
        else bytes((127, len(value) - 127 & 127 | 128, len(value) - 127 >> 7))
    )
    return (b"\x40" if indexed else b"\x00") + bytes((len(name),)) + name + length + value


def test_advertised_table_size_is_respected() -> None:
    grow = bytes.fromhex("3fe13f")  # 8,192
    with pytest.raises(HpackError, match="8192 bytes is larger than 4096"):
        Decoder().decode(grow)
    assert Decoder(max_table_size=8192).decode(grow) == ()
    decoder = Decoder(max_table_size=0)  # 4,096 bytes until the peer has seen the setting
    decoder.decode(literal(b"a", b"1", indexed=True))
    assert decoder.decode(b"\xbe") == ((b"a", b"1"),)
    assert decoder.decode(b"\x20\x82") == ((b":method", b"GET"),)
    with pytest.raises(HpackError, match="index 62"):
        decoder.decode(b"\xbe")


def test_decompression_bomb_costs_no_more_than_its_bytes() -> None:
    """5 MB that stand for 16 GB: the list is refused, nothing of the size is built, and the table stays right."""
    decoder = Decoder()
    decoder.decode(literal(b"bomb", b"b" * 4000, indexed=True))
    began = time.process_time()
    with pytest.raises(HeaderListTooLarge):
        decoder.decode(b"\xbe" * 3_000_000 + literal(b"after", b"1", indexed=True) + b"\xbe\xbf" * 1_000_000)
    spent = time.process_time() - began
    assert spent < 0.5, "a millisecond where a run of references is not followed one by one"
    assert decoder.decode(b"\xbe") == ((b"after", b"1"),)


@pytest.mark.parametrize("wrong", [b"\x80", b"\xc0", b"\xff\x01"])
def test_headers_beyond_the_limit_are_still_validated(wrong: bytes) -> None:
    """The table has the indices up to 63: a reference to 64, one to 0 and one to 128."""
    decoder = Decoder()
    decoder.decode(literal(b"bomb", b"b" * 1900, indexed=True) + literal(b"bomb", b"c" * 1900, indexed=True))
    with pytest.raises(HeaderListTooLarge):
        decoder.decode(b"\xbf" * 100)
    with pytest.raises(HpackError, match="names no header"):
        decoder.decode(b"\xbf" * 100 + wrong + b"\xbf" * 100)


@pytest.mark.parametrize("indexed", [False, True], ids=["not indexed", "indexed"])
def test_string_too_long_for_list_and_table_is_not_decoded(indexed: bool) -> None:
    """It would cost a fifth of a second. An entry of its size leaves the table empty."""
    decoder = Decoder()
    decoder.decode(literal(b"a", b"1", indexed=True))
    eight = int("00011" * 8, 2).to_bytes(5)  # eight times "a"
    long = (
        (b"\x40" if indexed else b"\x00") + wire.string(b"long") + wire.string(eight * 200_000, huffman=True)
    )
    long += literal(b"b", b"2", indexed=True)
    began = time.process_time()
    with pytest.raises(HeaderListTooLarge):
        decoder.decode(long)
    assert time.process_time() - began < 0.05
    assert decoder.decode(b"\xbe") == ((b"b", b"2"),)
    with pytest.raises(HpackError, match="names no header"):
        decoder.decode(b"\xbf" if indexed else b"\xc0")


def test_headers_far_beyond_the_limit_end_the_block() -> None:
    one = literal(b"n", b"v", indexed=False)
    with pytest.raises(HeaderListTooLarge):
        Decoder(max_list_size=0).decode(one * MAX_EXCESS)
    with pytest.raises(TooManyHeaders):
        Decoder(max_list_size=0).decode(one * (MAX_EXCESS + 1))


def test_entry_larger_than_the_table_empties_it() -> None:
    decoder = Decoder()
    decoder.decode(literal(b"a", b"1", indexed=True))
    assert decoder.decode(literal(b"large", b"l" * 4096, indexed=True)) == ((b"large", b"l" * 4096),)
    with pytest.raises(HpackError, match="index 62"):
        decoder.decode(b"\xbe")


def test_repeated_block_is_decoded_once() -> None:
    decoder = Decoder()
    decoder.decode(literal(b"a", b"1", indexed=True))
    first = decoder.decode(b"\x82\xbe")
    assert decoder.decode(b"\x82\xbe") is first
    decoder.decode(literal(b"b", b"2", indexed=True))
    assert decoder.decode(b"\x82\xbe") == ((b":method", b"GET"), (b"b", b"2")), "the table has changed"


@pytest.mark.parametrize("change", ["20", "3fe10f"])
def test_resizing_the_table_clears_cached_blocks(change: str) -> None:
    decoder = Decoder()
    decoder.decode(literal(b"a", b"1" * 3000, indexed=True))
    decoder.decode(b"\xbe")
    decoder.decode(bytes.fromhex(change))  # to 0, and to 2,048: the entry is lost
    with pytest.raises(HpackError, match="index 62"):
        decoder.decode(b"\xbe")


def held(decoder: Decoder) -> int:
    """Bytes of all that the decoder refers to, each object once."""
    seen: dict[int, int] = {}
    left: list[object] = [getattr(decoder, name) for name in decoder.__slots__]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = sys.getsizeof(each)
        if isinstance(each, dict):
            left += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            left += each
    return sum(seen.values())


@pytest.mark.parametrize(
    "blocks",
    [
        [literal(b"n", b"%d" % number, indexed=True) for number in range(5000)],
        [literal(b"n", b"%d" % number, indexed=False) for number in range(5000)],
        [literal(b"", b"", indexed=False) * (number % 200) for number in range(5000)],
        [literal(b"n", b"v" * (number % 8000), indexed=number % 3 == 0) for number in range(5000)],
        [b"\x82" * (number % 300) for number in range(5000)],
    ],
    ids=["indexed", "literal", "empty", "large", "references"],
)
def test_cached_blocks_are_bounded(blocks: list[bytes]) -> None:
    decoder = Decoder()
    empty = held(decoder)
    for block in blocks:
        decoder.decode(block)
        assert decoder._kept_size <= MAX_KEPT_SIZE
    assert held(decoder) - empty < 64 * 1024


def test_blocks_are_not_cached_if_disabled() -> None:
    decoder = Decoder(cached_blocks=0)
    assert decoder.decode(b"\x82\x84") is not decoder.decode(b"\x82\x84")
