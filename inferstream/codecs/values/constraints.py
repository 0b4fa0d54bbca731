"""Constraints of single values and lists, such as `Annotated[int, Field(gt=0)]`, and descriptions."""

from typing import Any, get_args

import orjson
from annotated_types import BaseMetadata, GroupedMetadata
from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainValidator,
    TypeAdapter,
    WrapValidator,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo

from ...types import RequestInput, ResponseOutput
from .base import SCHEMA, Value
from .validation import Validator

CONSTRAINTS = (
    FieldInfo,
    BaseMetadata,
    GroupedMetadata,
    AfterValidator,
)
"""`Annotated` metadata that pydantic treats as constraints."""


BEFORE = (BeforeValidator, PlainValidator, WrapValidator)


class Constrained(Value):
    """Values of `of` that also satisfy the constraints of an annotation."""

    def __init__(self, of: Value, hint: Any) -> None:
        """Raises TypeError for constraints that do not apply to the type."""
        self._of = of
        self.datatype = of.datatype
        self.content = of.content
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
            self._schema = orjson.dumps(self._adapter.json_schema()).decode()
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
            raise TypeError(f"{hint!r}: {str(error).splitlines()[0]}") from None
        self._obeying = Validator(self._adapter).validate_python

    @property
    def shape(self) -> list[int]:
        return self._of.shape

    def facts(self) -> dict[str, Any]:
        return {**self._of.facts(), SCHEMA: self._schema}

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        return self._obeying(self._of.read(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        return self._of.write(self._obeying(value))

    def check(self, value: Any) -> None:
        self._of.check(value)
        self._obeying(value)

    def from_json(self, value: Any) -> Any:
        return self._obeying(self._of.from_json(value))

    def to_json(self, value: Any) -> Any:
        return self._of.to_json(value)


def takes_raw(hint: Any) -> bool:
    """Whether `Annotated[...]` has a validator that receives the value before it is parsed."""
    return any(isinstance(part, BEFORE) for part in get_args(hint)[1:])


def constrains(hint: Any) -> bool:
    """Whether `Annotated[...]` has a constraint."""
    rules = [part for part in get_args(hint)[1:] if isinstance(part, CONSTRAINTS)]
    return any(
        not isinstance(part, FieldInfo) or part.metadata for part in rules
    )  # a Field may contain only a description


def find_description(hint: Any) -> str | None:
    """Return the description in `Annotated[T, "..."]`, `Field(description=...)` or `Doc(...)`, or None."""
    for part in getattr(hint, "__metadata__", ()):
        said = part if isinstance(part, str) else getattr(part, "description", None)
        said = said or getattr(part, "documentation", None)
        if isinstance(said, str):
            return said
    return None
