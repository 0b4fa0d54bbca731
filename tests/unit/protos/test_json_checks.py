"""What counts in JSON is what a parser would make of it, however it arrives."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest, PayloadTooLarge
from inferstream.protos.json_checks import (
    OBJECT,
    JsonCounter,
    JsonLimits,
    count_outside_strings,
    refuse_duplicate_keys,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text('ab"\\\\[]{}:,tfn\n\u00e9', max_size=6)
DOCUMENTS = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


def measured(document: Any) -> tuple[int, int, int]:
    """The values that count, the depth and the keys of a document."""
    if isinstance(document, dict | list):
        items = [*document.values()] if isinstance(document, dict) else document
        parts = [measured(item) for item in items]
        own = len(document) if isinstance(document, dict) else 0
        return (
            (OBJECT if isinstance(document, dict) else 1) + own + sum(part[0] for part in parts),
            1 + max((part[1] for part in parts), default=0),
            own + sum(part[2] for part in parts),
        )
    return int(not isinstance(document, int | float) or isinstance(document, bool)), 0, 0


def count(text: bytes, size: int, depth: int, values: int, step: int) -> None:
    counter = JsonCounter(JsonLimits(size, depth, values))
    for start in range(0, len(text), step):
        counter.add(text[start : start + step])


@given(DOCUMENTS, st.booleans(), st.integers(1, 40))
def test_value_count_and_depth_match_the_document(document: Any, ascii: bool, step: int) -> None:
    text = json.dumps(document, ensure_ascii=ascii).encode()
    values, depth, keys = measured(document)
    count(text, len(text), depth, values, step)
    if values:
        with pytest.raises(InvalidRequest, match="max_json_values"):
            count(text, len(text), depth, values - 1, step)
    if depth:
        with pytest.raises(InvalidRequest, match="max_json_depth"):
            count(text, len(text), depth - 1, values, step)
    with pytest.raises(PayloadTooLarge, match="max_json_bytes"):
        count(text, len(text) - 1, depth, values, step)
    assert count_outside_strings(text, b":") == keys


@given(DOCUMENTS)
def test_complete_and_chunked_text_give_the_same_result(document: Any) -> None:
    text = json.dumps(document).encode()
    values, depth, _ = measured(document)
    JsonLimits(len(text), depth, max(values, 1)).check(text)
    if depth:
        with pytest.raises(InvalidRequest, match=f"deeper than {depth - 1} levels"):
            JsonLimits(len(text), depth - 1, max(values, 1)).check(text)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e5", "-0.25"])
def test_numbers_are_not_counted(number: str) -> None:
    text = b"[%b]" % b",".join([number.encode()] * 100)
    JsonLimits(len(text), 1, 1).check(text)


def test_brackets_in_strings_are_ignored() -> None:
    text = json.dumps({"prompt": "[" * 1000 + '\\"' * 1000}).encode()
    JsonLimits(len(text), 1, OBJECT + 2).check(text)


def test_unterminated_string_hides_the_rest() -> None:
    JsonLimits(1000, 1, 1).check(b'"[[[[[[[[[[')


@pytest.mark.parametrize("size", [40_000, 2_000_000])
def test_colons_in_strings_are_distinguished_from_keys(size: int) -> None:
    text = json.dumps({"a": "x: " * (size // 3), "b": '":'}).encode()
    refuse_duplicate_keys(text, 2)
    with pytest.raises(InvalidRequest, match="given twice"):
        refuse_duplicate_keys(text.replace(b'"b"', b'"a"'), 1)
