"""Calls in docstrings as examples."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferstream import ModelSettings
from inferstream.ext.calls import Described
from inferstream.ext.runtimes import Signature
from inferstream.plugins.page.docstring_examples import docstring_examples
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
def test_calls_with_literals_are_examples(doc: str, arguments: dict[str, Any] | None) -> None:
    signature = Signature(tuple(INPUTS), doc=doc, function=True)
    capabilities: Any = SimpleNamespace(predict=True, streams=False)
    model = Described(signature, capabilities, ModelSettings(implementation="m.M"))
    found = docstring_examples(model, INPUTS)
    assert [example.arguments for example in found] == ([] if arguments is None else [arguments])
    assert all([each.name for each in example.tensors] == [*example.arguments] for example in found)
