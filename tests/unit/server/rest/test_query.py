"""Arguments in a query."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest, ModelError
from inferstream.server.rest.query import MAX_QUERY_BYTES, MAX_VALUES, parse_query
from inferstream.types import MetadataTensor, Parameters


def tensor(name: str, datatype: str, shape: list[int] | None = None, content_type: str | None = None):
    parameters = None if content_type is None else Parameters(content_type=content_type)
    return MetadataTensor(name=name, datatype=datatype, shape=shape or [1], parameters=parameters)


INPUTS = [
    tensor("text", "BYTES"),
    tensor("texts", "BYTES", [-1]),
    tensor("whole", "INT64"),
    tensor("wholes", "INT32", [-1]),
    tensor("real", "FP32"),
    tensor("flag", "BOOL"),
    tensor("object", "BYTES", content_type="json"),
]


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        (b"", {}),
        (b"text=", {"text": ""}),
        (b"text=12&whole=12&real=12", {"text": "12", "whole": 12, "real": 12.0}),
        (b"text=a+b%26c%3D", {"text": "a b&c="}),
        (b"texts=a&texts=b", {"texts": ["a", "b"]}),
        (b"texts=a", {"texts": ["a"]}),
        (b"wholes=-1", {"wholes": [-1]}),
        (b"text=a&text=b", {"text": ["a", "b"]}),
        (b"flag=true", {"flag": True}),
        (b"flag=False", {"flag": False}),
        (b"flag=0", {"flag": False}),
        (b"object=%7B%22a%22%3A1%7D", {"object": {"a": 1}}),
        (b"other=1&more=true&rest=x&also=null", {"other": 1, "more": True, "rest": "x", "also": "null"}),
        (b"id=17", {"id": "17"}),
    ],
)
def test_query_values_have_input_types(query: bytes, arguments: dict[str, object]) -> None:
    assert parse_query(query, INPUTS) == arguments


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (b"whole=1.5", 'argument "whole" takes a whole number'),
        (b"whole=", 'argument "whole" takes a whole number'),
        (b"real=x", 'argument "real" takes a number'),
        (b"flag=yes", 'argument "flag" takes true or false'),
        (b"object=%7B", 'argument "object" takes JSON'),
        (b"text=%ff", "percent-encoded UTF-8"),
        ("text=ü".encode(), "percent-encoded UTF-8"),
        (b"&".join([b"text=a"] * (MAX_VALUES + 1)), f"more than {MAX_VALUES} values"),
    ],
)
def test_invalid_query_is_refused(query: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse_query(query, INPUTS)


def test_long_query_is_refused() -> None:
    with pytest.raises(ModelError, match="POST takes longer arguments") as caught:
        parse_query(b"text=" + b"a" * MAX_QUERY_BYTES, INPUTS)
    assert caught.value.status_code == 414


@given(st.text(max_size=200), st.integers(-(2**63), 2**63 - 1), st.booleans())
def test_query_values_round_trip(text: str, whole: int, flag: bool) -> None:
    text = text.encode(errors="replace").decode()
    query = urlencode({"text": text, "whole": whole, "flag": str(flag).lower()}).encode()
    assert parse_query(query, INPUTS) == {"text": text, "whole": whole, "flag": flag}
