"""Items of a stream in one document, within a bound."""

import sys

import pytest

from inferstream.errors import PayloadTooLarge
from inferstream.ext.http import GatherLimit
from inferstream.plugins.agents.joined_items import JoinedItems


def test_joined_items_take_only_their_bytes() -> None:
    items = JoinedItems(GatherLimit(10**6))
    for _ in range(100_000):
        items.add(b"1")
    assert items.list_document() == b"[" + b",".join([b"1"] * 100_000) + b"]"
    assert sys.getsizeof(items.joined) < 400_000


def test_batch_calls_share_one_limit() -> None:
    limit = GatherLimit(10)
    one, other = JoinedItems(limit), JoinedItems(limit)
    one.add(b"1234")
    other.add(b"1234")
    with pytest.raises(PayloadTooLarge, match="max_body_bytes"):
        one.add(b"")


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([b'"a "', b'"\\u0001\xc3\xa9"'], b'"a \\u0001\xc3\xa9"'),
        ([b'"a"', b"1", b'"b"'], None),
        ([], b'""'),
    ],
)
def test_strings_are_joined(items: list[bytes], text: bytes | None) -> None:
    joined = JoinedItems(GatherLimit(100), joins_text=True)
    for item in items:
        joined.add(item)
    assert (joined.text, joined.count) == (text, len(items))
    assert joined.list_document() == b"[%b]" % b",".join(items)
