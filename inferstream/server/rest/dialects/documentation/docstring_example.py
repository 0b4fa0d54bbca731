"""The example of a call in the docstring of a model, as `>>> add(2, b=3)`. `page/examples.js` reads the same."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .....codecs.values.flat import FlatArguments
from .....errors import InvalidRequest
from .....types import MetadataTensor, RequestInput

CALL = re.compile(r"^[ \t]*>>> (.*(?:\n[ \t]*\.\.\. .*)*)", re.MULTILINE)
CONTINUED = re.compile(r"\n[ \t]*\.\.\. ")


def docstring_example(
    doc: str, inputs: Sequence[MetadataTensor], strict: bool
) -> tuple[dict[str, Any], list[RequestInput]] | None:
    """The arguments of the first call that the model would take, flat and as tensors; None without one."""
    reader = FlatArguments(inputs, strict)
    for call in _calls(doc):
        try:
            positional = zip(reader.names, map(ast.literal_eval, call.args), strict=False)
            named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
            arguments = {**dict(positional), **named}
            return arguments, reader.read(arguments)
        except (InvalidRequest, ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue  # its arguments are code, or not those of the model
    return None


def _calls(doc: str) -> Iterator[ast.Call]:
    for found in CALL.finditer(doc):
        try:
            statements = ast.parse(CONTINUED.sub("\n", found[1])).body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        value = getattr(statements[0], "value", None) if statements else None
        if isinstance(value, ast.Await):
            value = value.value
        if isinstance(value, ast.Call):
            yield value
