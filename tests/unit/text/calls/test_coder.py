from inferstream.text.calls.coder import Coder

PROPERTIES = {"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": PROPERTIES}}}]


def arguments(tools, **parameters: str) -> str:
    parser = Coder(tools)
    inner = "".join(f"<parameter={name}>\n{text}\n</parameter>\n" for name, text in parameters.items())
    deltas = parser.push(f"<tool_call>\n<function=f>\n{inner}</function>\n</tool_call>")
    assert deltas[0] == ("call", "f")
    assert parser.finish() == []
    return deltas[1].text


def test_parameters_have_the_types_of_their_schema() -> None:
    assert arguments(TOOLS, s="1\n", n="1", b="True") == '{"s": "1\\n", "n": 1, "b": true}'


def test_without_a_schema_or_a_value_that_fits_they_are_texts() -> None:
    assert arguments(TOOLS, n="one", x="1") == '{"n": "one", "x": "1"}'
    assert arguments([{"function": 7}], n="1") == '{"n": "1"}'
    assert arguments(TOOLS, n="NaN") == '{"n": "NaN"}'


def test_a_call_without_parameters_has_an_empty_object() -> None:
    assert arguments(TOOLS) == "{}"
