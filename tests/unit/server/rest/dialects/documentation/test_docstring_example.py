"""Calls in docstrings as examples."""

from typing import Any

import pytest

from inferstream.server.rest.dialects.documentation.docstring_example import docstring_example
from inferstream.types import MetadataTensor, Parameters

INPUTS = [
    MetadataTensor(name="a", datatype="INT64", shape=[1]),
    MetadataTensor(
        name="table",
        datatype="BYTES",
        shape=[1],
        parameters=Parameters(content_type="pd_json", optional=True),
    ),
    MetadataTensor(name="words", datatype="BYTES", shape=[-1], parameters=Parameters(optional=True)),
]


@pytest.mark.parametrize(
    ("doc", "arguments"),
    [
        (">>> f(2)", {"a": 2}),
        ("Adds.\n\n    >>> f(2, {'age': [33.0, None]})\n    33", {"a": 2, "table": {"age": [33.0, None]}}),
        (">>> x = await app.f(a=-2)", {"a": -2}),
        (">>> f(\n...     2,\n...     words=['x', \"y'\"],\n... )\n3", {"a": 2, "words": ["x", "y'"]}),
        (">>> f(n)\n>>> f(3)", {"a": 3}),
        (">>> import x\n>>> f(3)", {"a": 3}),
        (">>> f('text')\n>>> f(3)", {"a": 3}),
        (">>> f(b=1)\n>>> f(3)", {"a": 3}),
        (">>> f(", None),
        (">>> f(**{'a': 1})", None),
        (">>> f()", None),
        (">>> f(2, {1, 2})", None),
        (">>> f(" + "[" * 5000 + ")", None),
        (">>> ", None),
        ("f(2)", None),
        ("", None),
    ],
)
def test_the_first_call_with_values_is_the_example(doc: str, arguments: dict[str, Any] | None) -> None:
    found = docstring_example(doc, INPUTS, True)
    assert (None if found is None else found[0]) == arguments
    assert found is None or [each.name for each in found[1]] == [*found[0]]
