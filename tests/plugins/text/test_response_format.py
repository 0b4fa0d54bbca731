import json

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.text.chat import build_plain_prompt
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.inputs import field_name
from inferstream.plugins.text.interface import TextInterface
from inferstream.plugins.text.response_format import format_inputs, read_response_format
from inferstream.types import MetadataTensor

SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}
NAMED = {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}


def interface(*extras: str) -> TextInterface:
    declared = {name: MetadataTensor(name=name, datatype="BYTES", shape=[1]) for name in extras}
    return TextInterface(
        None,
        declared,
        {},
        build_plain_prompt,
        generates=True,
        embeds=False,
        logprobs=False,
        streams=True,
        listed=True,
    )


def read(**fields: object) -> object:
    inputs = read_response_format(Fields(fields), interface("response_format"))
    assert set(inputs) <= {"response_format"}
    return json.loads(inputs["response_format"][0]) if inputs else None


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": None, "guided_regex": None, "structured_outputs": None}, None),
        ({"structured_outputs": {}}, None),
        ({"structured_outputs": {"json_object": False}}, None),
        ({"response_format": {"type": "json_object"}}, {"type": "json_object"}),
        ({"response_format": NAMED}, NAMED),
        ({"response_format": {"type": "regex", "regex": "a+"}}, {"type": "regex", "regex": "a+"}),
        ({"guided_json": SCHEMA}, NAMED),
        ({"guided_json": json.dumps(SCHEMA)}, NAMED),
        ({"guided_regex": "a+"}, {"type": "regex", "regex": "a+"}),
        ({"guided_choice": ["a", "b"]}, {"type": "choice", "choice": ["a", "b"]}),
        ({"guided_grammar": 'root ::= "a"'}, {"type": "grammar", "grammar": 'root ::= "a"'}),
        ({"structured_outputs": {"json": SCHEMA}}, NAMED),
        ({"structured_outputs": {"json_object": True}}, {"type": "json_object"}),
        ({"structured_outputs": {"choice": ["a"], "regex": None}}, {"type": "choice", "choice": ["a"]}),
        ({"response_format": {"type": "text"}, "guided_regex": "a"}, {"type": "regex", "regex": "a"}),
    ],
)
def test_every_format_spelling_becomes_one_input(fields: dict, form: object):
    assert read(**fields) == form


def test_schema_keeps_property_order():
    [form] = read_response_format(Fields({"guided_json": SCHEMA}), interface("response_format")).values()
    assert str(form[0]).index('"b"') < str(form[0]).index('"a"')


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.name"),
        ({"response_format": {"type": "regex"}}, "response_format.regex"),
        ({"response_format": {"type": "choice", "choice": []}}, "response_format.choice"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": [1]}, "guided_json"),
        ({"guided_json": "3"}, "guided_json"),
        ({"guided_regex": 3}, "guided_regex"),
        ({"guided_choice": ["a", ""]}, "guided_choice"),
        ({"guided_choice": "a"}, "guided_choice"),
        ({"guided_choice": ["a"] * 1001}, "guided_choice"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"structural_tag": "a"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"regex": ["a"]}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.regex"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
    ],
)
def test_invalid_field_is_named(fields: dict, field: str):
    with pytest.raises(InvalidRequest) as raised:
        read(**fields)
    assert raised.value.detail[0]["loc"] == [field]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"guided_choice": ["a"]}, "guided_choice"),
        ({"structured_outputs": {"json": SCHEMA}}, "structured_outputs.json"),
    ],
)
def test_undeclared_input_is_not_sent(fields: dict, field: str):
    with pytest.raises(InvalidRequest, match="the model does not write") as raised:
        read_response_format(Fields(fields), interface("tools"))
    assert raised.value.detail[0]["loc"] == [field]


def test_input_records_client_field() -> None:
    for fields, field in (
        ({"guided_regex": "a"}, "guided_regex"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs.regex"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ):
        interface_ = interface("response_format")
        request = interface_.build_request(None, read_response_format(Fields(fields), interface_), {})
        assert field_name(request.inputs, "response_format") == field
    assert field_name([], "response_format") == "response_format"


def test_other_protocols_declare_their_format_field():
    assert format_inputs(None, interface(), "format") == {}
    with pytest.raises(InvalidRequest, match=r"text\.format: the model does not write json_object"):
        format_inputs(Fields({"type": "json_object"}, "text.format"), interface(), "text.format")
