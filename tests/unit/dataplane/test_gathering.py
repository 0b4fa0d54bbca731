"""What the server collects of a stream for one whole response has a bound, and takes no more than its bytes."""

import sys

import numpy as np
import pytest

from inferstream.dataplane.gathering import ITEM_BYTES, GatherLimit
from inferstream.errors import PayloadTooLarge
from inferstream.plugins.agents.joined_items import JoinedItems
from inferstream.types import InferenceResponse, ResponseOutput, TensorData


def test_items_take_their_bytes_alone() -> None:
    items = JoinedItems(GatherLimit(10**6))
    for _ in range(100_000):
        items.add(b"1")
    assert items.list_document() == b"[" + b",".join([b"1"] * 100_000) + b"]"
    assert sys.getsizeof(items.joined) < 400_000


def test_the_calls_of_a_batch_have_one_limit() -> None:
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
def test_texts_are_one_text(items: list[bytes], text: bytes | None) -> None:
    joined = JoinedItems(GatherLimit(100), joins_text=True)
    for item in items:
        joined.add(item)
    assert (joined.text, joined.count) == (text, len(items))
    assert joined.list_document() == b"[%b]" % b",".join(items)


@pytest.mark.parametrize(
    ("data", "datatype", "size"),
    [
        (TensorData(np.zeros(100)), "FP64", 800),
        (TensorData.from_raw(bytes(40), "INT32"), "INT32", 40),
        (TensorData(["abc", b"de"]), "BYTES", 5),
        (TensorData([1, 2]), "INT64", 2 * ITEM_BYTES),
    ],
)
def test_each_form_of_a_tensor_counts(data: TensorData, datatype: str, size: int) -> None:
    response = InferenceResponse.of("m", [ResponseOutput.of("y", [1], datatype, data)])
    GatherLimit(size + ITEM_BYTES).take_response(response)
    with pytest.raises(PayloadTooLarge):
        GatherLimit(size + ITEM_BYTES - 1).take_response(response)
