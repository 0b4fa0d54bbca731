import pytest

from inferstream.text.calls.brackets import DEEPEST, Brackets, BrokenCall


def ends(text: str, python: bool = False) -> int:
    """Where the first value ends, read one character at a time."""
    brackets = Brackets(0, python)
    for size in range(1, len(text) + 1):
        while brackets.next(text[:size]):
            if not brackets.depth:
                return brackets.at
    return -1


@pytest.mark.parametrize("value", ["{}", '{"a": "}\\"}", "b": [1, -2.5e3, null, true]}', '{"\\\\": {}}'])
def test_an_object_ends_at_its_bracket(value: str) -> None:
    assert ends(value + " more }") == len(value)


def test_strings_of_python_have_two_kinds_of_quotes() -> None:
    assert ends("(a=')', b=\"'(\", c=[1]) x", python=True) == len("(a=')', b=\"'(\", c=[1])")


@pytest.mark.parametrize("value", ["{<", "{'a'", "{]", "}", "[" * (DEEPEST + 1)])
def test_what_cannot_become_a_value(value: str) -> None:
    with pytest.raises(BrokenCall):
        ends(value)


def test_an_object_that_does_not_end() -> None:
    assert ends('{"a": "}') == -1
