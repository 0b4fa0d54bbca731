"""Example calls in the docstring of a model, such as `>>> add(2, b=3)`."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Described
from inferstream.types import MetadataTensor, RequestInput

CALL = re.compile(r"^[ \t]*>>> (.*(?:\n[ \t]*\.\.\. .*)*)", re.MULTILINE)
CONTINUED = re.compile(r"\n[ \t]*\.\.\. ")


class Example(NamedTuple):
    """The arguments of a call, as an object and as tensors."""

    arguments: dict[str, Any]
    tensors: list[RequestInput]


def docstring_examples(model: Described, inputs: Sequence[MetadataTensor]) -> list[Example]:
    """Return the calls whose arguments are literals and match the inputs."""
    examples = []
    reader = model.arguments(inputs)
    for call in _calls(model.signature.doc):
        try:
            positional = zip(reader.names, map(ast.literal_eval, call.args), strict=False)
            named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
            arguments = {**dict(positional), **named}
            orjson.dumps(arguments)
            examples.append(Example(arguments, reader.read(arguments)))
        except (InvalidRequest, ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue  # The arguments are not literals or do not match the model.
    return examples


def _calls(doc: str) -> Iterator[ast.Call]:
    for match in CALL.finditer(doc):
        try:
            statements = ast.parse(CONTINUED.sub("\n", match[1])).body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        value = getattr(statements[0], "value", None) if statements else None
        if isinstance(value, ast.Await):
            value = value.value
        if isinstance(value, ast.Call):
            yield value
