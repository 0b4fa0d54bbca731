"""Large values are validated as small ones are, and end at the first faults."""

import gc
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from inferstream.codecs.values.validation import LARGE, Validator


class Point(BaseModel):
    model_config = {"extra": "forbid"}
    x: int = 1


class Tree(BaseModel):
    children: list["Tree"] = []
    names: dict[str, int] = {}


PAD = b" " * (LARGE + 1)
HINTS: list[tuple[Any, bytes, Any]] = [
    (list[int], b"[1,2]", [1, 2]),
    (dict[str, list[int]], b'{"a":[1],"b":[]}', {"a": [1], "b": []}),
    (tuple[int, str], b'[1,"a"]', (1, "a")),
    (tuple[int, ...], b"[1,2]", (1, 2)),
    (set[str], b'["a","a"]', {"a"}),
    (list[int] | list[str], b'["1","a"]', ["1", "a"]),
    (dict[str, int] | dict[str, str], b'{"a":"b"}', {"a": "b"}),
    (list[Point], b'[{},{"x":2}]', [Point(), Point(x=2)]),
    (Tree, b'{"children":[{"names":{"a":1}}]}', Tree(children=[Tree(names={"a": 1})])),
    (Any, b"[1]", [1]),
]


@pytest.mark.parametrize(("hint", "text", "value"), HINTS)
def test_large_value_is_unchanged(hint: Any, text: bytes, value: Any) -> None:
    validator = Validator(TypeAdapter(hint))
    assert validator.validate_json(text) == validator.validate_json(text + PAD) == value


@pytest.mark.parametrize(
    ("hint", "text", "said"),
    [
        (list[int], b'["a","b"]', 'field "0": input should be a valid integer'),
        (dict[str, int], b'{"a":"b"}', "an object has a key or a value that does not fit"),
        (dict[int, int], b'{"a":1}', "an object has a key or a value that does not fit"),
        (Point, b'{"y":1}', "an object has a key or a value that does not fit"),
        (Point, b'{"x":"a"}', 'field "x"'),
        (Tree, b'{"children":[1]}', 'field "children.0"'),
        (dict[str, int] | dict[str, bool], b'{"a":"b"}', "a"),
        (list[int], b"[1", "not valid JSON"),
    ],
)
def test_large_invalid_value_is_refused(hint: Any, text: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Validator(TypeAdapter(hint)).validate_json(text + PAD)
    assert gc.isenabled()


def test_many_errors_are_summarized() -> None:
    many = b"{" + b",".join(b'"k%d":[]' % at for at in range(5000)) + b"}"
    with pytest.raises(ValueError, match="10000 values do not fit"):
        Validator(TypeAdapter(dict[str, int] | dict[str, bool])).validate_json(many)
    wrong = [-1] * (LARGE + 1)
    with pytest.raises(ValueError, match=r'^field "0": input should be greater than 0$'):
        Validator(TypeAdapter(list[Annotated[int, Field(gt=0)]])).validate_python(wrong)
