"""JSON values with a schema: dataclasses, TypedDicts, pydantic models, dictionaries and nested lists."""

import dataclasses
import typing
from typing import Any

import orjson
from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from typing_extensions import is_typeddict

from .base import SCHEMA, SingleValue, brief
from .scalars import as_text, loaded


class Json(SingleValue):
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
        if self._any:
            self.from_element = loaded  # type: ignore[method-assign]
        made = isinstance(hint, type) and issubclass(hint, BaseModel | tuple)
        self._class: type | None = hint if made else None
        try:
            self._schema = orjson.dumps(self._adapter.json_schema()).decode()
        except (PydanticInvalidForJsonSchema, PydanticUserError):
            raise TypeError(f"{hint!r} is no type that can be sent: no JSON schema describes it") from None

    def facts(self) -> dict[str, Any]:
        return {} if self._any else {SCHEMA: self._schema}

    def from_element(self, element: Any) -> Any:
        return self._validated(as_text(element))

    def element(self, value: Any) -> str:
        try:
            if self._any:
                return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
            checked = self._adapter.validate_python(value, from_attributes=True)
            return self._adapter.dump_json(checked, by_alias=True).decode()
        except ValidationError as error:
            raise ValueError(faults(error)) from None
        except (TypeError, ValueError) as error:  # pydantic's own error of serialisation is a ValueError
            raise TypeError(f"cannot be written as JSON: {error}") from None

    def check(self, value: Any) -> None:
        if self._class is not None and not isinstance(value, self._class):
            raise TypeError(f"takes an instance of {self._class.__name__}, got {brief(value)}")
        try:
            self._adapter.validate_python(value, strict=True)
        except ValidationError as error:
            raise ValueError(faults(error)) from None

    def from_json(self, value: Any) -> Any:
        # JSON's rules, so that a text may stand for a time and a list for a tuple.
        return value if self._any else self._validated(orjson.dumps(value))

    def to_json(self, value: Any) -> Any:
        return orjson.Fragment(self.element(value))

    def _validated(self, text: str | bytes) -> Any:
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise ValueError(faults(error)) from None


def faults(error: ValidationError) -> str:
    """Each fault with its place: `field "age": input should be a valid integer`."""
    said = []
    for fault in error.errors(include_url=False, include_context=False)[:5]:
        place, message = ".".join(map(str, fault["loc"])), fault["msg"]
        if fault["type"] == "json_invalid":
            message = f"not valid JSON ({message.partition(': ')[2]})"
        elif fault["type"] == "int_parsing_size":
            message = "an integer beyond 64 bits is out of range"
        message = message[:1].lower() + message[1:]
        said.append(f'field "{place}": {message}' if place else message)
    return "; ".join(said)


def is_object(hint: Any) -> bool:
    """Whether values annotated with `hint` travel as JSON."""
    if hint is Any or hint in (dict, list, tuple, set, object):
        return True
    if typing.get_origin(hint) is not None:
        return True
    if not isinstance(hint, type):
        return False
    named = issubclass(hint, tuple) and hasattr(hint, "_fields")
    known = dataclasses.is_dataclass(hint) or is_typeddict(hint)
    return named or known or issubclass(hint, BaseModel | dict)
