"""Flat objects of Triton's `generate`, each parsed once."""

import json

import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos import json_checks
from inferstream.protos.generate import encode_tensors, parse_flat
from inferstream.protos.json_requests import build_request, load_request
from inferstream.types import MetadataTensor, Parameters


def parse(text: bytes):
    return parse_flat(*load_request(text), [])


@pytest.mark.parametrize(
    "text",
    [
        b'{"text": "hi"}',
        b'{"text":"hi","parameters":{"a":1,"b":true}}',
        b'{"text":"at 10:30, said: no","n":[1,2]}',
        json.dumps({"text": "x", "values": [1] * 20_000, "parameters": {}}).encode(),
    ],
)
def test_body_is_parsed_once(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_checks.json, "loads", None)
    assert parse(text).inputs[0].name == "text"


@pytest.mark.parametrize(
    "text",
    [
        b'{"text":"a","text":"b"}',
        b'{"text" :"a","text":"b"}',
        b'{"text"\t:"a","text"\n: "b"}',
        b'{"text":"a","parameters":{"x":1},"parameters":{"y":2},"text":"b"}',
    ],
)
def test_duplicate_key_is_named(text: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r'key "(text|parameters)" is given twice'):
        parse(text)


def test_space_before_a_colon_does_not_hide_a_duplicate_v2_key() -> None:
    text = b'{"id" :"a","id":"b","inputs":[]}'
    with pytest.raises(InvalidRequest, match='key "id" is given twice'):
        build_request(*load_request(text), None)


@pytest.mark.parametrize("text", [b'{"text" : "a : b", "n" : 1}', b'{"text":"\\":\\":"}'])
def test_spaced_and_quoted_colons_are_distinguished_from_keys(text: bytes) -> None:
    assert parse(text).inputs[0].name == "text"


def test_non_object_body_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        parse(b"[1]")


CHAT = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("schema", "value", "rows"),
    [
        ('{"type": "array"}', ["a", "b"], [["a", "b"]]),
        ('{"type": "array"}', [["a"], ["b", "c"]], [["a"], ["b", "c"]]),
        ('{"type": "array"}', [["a"], None], [["a"], None]),
        ('{"type": "array"}', CHAT, [CHAT]),
        ('{"type": "array"}', [CHAT, CHAT], [CHAT, CHAT]),
        ('{"type": "array"}', ['["a"]', '["b"]'], [["a"], ["b"]]),
        ('{"type": "array"}', "[1]", [[1]]),
        ('{"type": "array"}', [1.5, 2.5], [[1.5, 2.5]]),
        ("{}", {"a": [1]}, [{"a": [1]}]),
        ("{}", [{"a": 1}, {"b": None}], [{"a": 1}, {"b": None}]),
    ],
)
def test_document_column_has_one_or_a_list(schema: str, value: object, rows: list[object]) -> None:
    described = MetadataTensor(
        name="x", datatype="BYTES", shape=[-1], parameters=Parameters(described=True, row_schema=schema)
    )
    [tensor] = encode_tensors({"x": value}, [], [described])
    assert (tensor.datatype, tensor.shape) == ("BYTES", [len(rows)])
    assert [each and json.loads(each) for each in tensor.data.root] == rows
