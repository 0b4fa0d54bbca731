"""JSON values with a schema: dataclasses, TypedDicts, pydantic models, dictionaries and nested lists."""

import dataclasses
import typing
from typing import Any

import orjson
from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from ...types import RequestInput, ResponseOutput
from .base import SCHEMA, Value, single
from .scalars import as_text, expect


class Json(Value):
    """A value of any type that pydantic can validate, as one element of JSON text."""

    datatype = "BYTES"
    content = "json"

    def __init__(self, hint: Any) -> None:
        """Raises TypeError for a type that pydantic cannot validate."""
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
        except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
            raise TypeError(f"{hint!r} is no type that can be sent: {str(error).splitlines()[0]}") from None
        self._any = hint is Any

    def facts(self) -> dict[str, Any]:
        if self._any:
            return {}
        try:
            return {SCHEMA: orjson.dumps(self._adapter.json_schema()).decode()}
        except PydanticInvalidForJsonSchema:
            return {}

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        expect(tensor, "BYTES")
        text = as_text(single(tensor))
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"not valid JSON ({error})") from None
        return self.from_json(document)

    def write(self, value: Any) -> tuple[list[int], Any]:
        return [1], [self._text(value)]

    def from_json(self, value: Any) -> Any:
        try:
            return self._adapter.validate_python(value) if self._any else self._validated(value)
        except ValidationError as error:
            raise ValueError(_faults(error)) from None

    def to_json(self, value: Any) -> Any:
        return orjson.Fragment(self._text(value))

    def _validated(self, value: Any) -> Any:
        # JSON's rules, so that a text may stand for a time and a list for a tuple.
        return self._adapter.validate_json(orjson.dumps(value))

    def _text(self, value: Any) -> str:
        try:
            checked = value if self._any else self._adapter.validate_python(value, from_attributes=True)
            if self._any:
                return orjson.dumps(checked, option=orjson.OPT_SERIALIZE_NUMPY).decode()
            return self._adapter.dump_json(checked).decode()
        except ValidationError as error:
            raise ValueError(_faults(error)) from None
        except (TypeError, ValueError) as error:  # pydantic's own error of serialisation is a ValueError
            raise TypeError(f"cannot be written as JSON: {error}") from None


def _faults(error: ValidationError) -> str:
    """Each fault with its place: `field "age" should be a valid integer`."""
    said = []
    for fault in error.errors(include_url=False, include_context=False)[:5]:
        place = ".".join(map(str, fault["loc"]))
        said.append(f'field "{place}": {fault["msg"]}' if place else fault["msg"])
    return "; ".join(said)


def is_object(hint: Any) -> bool:
    """Whether values annotated with `hint` travel as JSON."""
    if hint is Any or hint in (dict, list, tuple, set, object):
        return True
    if typing.get_origin(hint) is not None:
        return True
    return isinstance(hint, type) and (
        dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or issubclass(hint, BaseModel | dict)
    )
