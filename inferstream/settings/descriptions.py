"""Descriptions of settings: the docstrings below the fields, read from the source only when needed."""

import ast
import inspect
from contextlib import suppress
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel


def describe_fields(settings: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions of the fields of a class and its bases, by field name."""
    descriptions: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if not issubclass(base, BaseModel) or not inspect.get_annotations(base):
            continue
        with suppress(OSError):  # classes that are defined in a notebook have no source file
            (defined,) = ast.parse(dedent(inspect.getsource(base))).body
            assert isinstance(defined, ast.ClassDef)
            for field, below in pairwise(defined.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                        if name in settings.model_fields:
                            descriptions[name] = " ".join(text.split())
    return descriptions
