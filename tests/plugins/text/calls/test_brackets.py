import pytest

from inferstream.plugins.text.calls.brackets import DEEPEST, Brackets, BrokenCall


def ends(text: str, python: bool = False) -> int:
    """Where the first value ends, read one character at a time."""
    brackets = Brackets(0, python)
    for size in range(1, len(text) + 1):
        while brackets.next(text[:size]):
            if not brackets.depth:
                return brackets.at
    return -1


@pytest.mark.parametrize("value", ["{}", '{"a": "}\\"}", "b": [1, -2.5e3, null, true]}', '{"\\\\": {}}'])
def test_object_ends_at_closing_bracket(value: str) -> None:
    assert ends(value + " more }") == len(value)


def test_python_strings_have_two_quote_styles() -> None:
    assert ends("(a=')', b=\"'(\", c=[1]) x", python=True) == len("(a=')', b=\"'(\", c=[1])")


@pytest.mark.parametrize("value", ["{<", "{'a'", "{]", "}", "[" * (DEEPEST + 1)])
def test_unparsable_values(value: str) -> None:
    with pytest.raises(BrokenCall):
        ends(value)


def test_unterminated_object() -> None:
    assert ends('{"a": "}') == -1
