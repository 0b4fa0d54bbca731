"""JSON values with a schema: dataclasses, TypedDicts, pydantic models, dictionaries and nested lists."""

from typing import Any

import orjson
from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from ...types import RequestInput, ResponseOutput
from ...types.json_encoding import decode, encode
from .base import SCHEMA, SingleValue, format_brief, get_single
from .scalars import as_text, parse_json
from .validation import AdaptedType, Validator, format_faults


class Json(SingleValue):
    """Encodes a value of any type that pydantic can validate as one BYTES element with JSON."""

    datatype = "BYTES"
    content = "json"
    reads_apart = True

    def __init__(self, hint: Any) -> None:
        """Raises TypeError for a type that pydantic cannot validate."""
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
        except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
            raise TypeError(
                f"{hint!r} is not a type that can be sent: {str(error).splitlines()[0]}"
            ) from None
        adapted = AdaptedType(self._adapter)
        self._dump_json = adapted.dump_json
        self._validated = Validator(adapted).validate_json
        self._any = hint is Any or hint is object
        self._is_described = hint is not Any
        if self._any:
            self.from_element = parse_json  # type: ignore[method-assign]
        made = isinstance(hint, type) and issubclass(hint, BaseModel | tuple)
        self._class: type | None = hint if made else None
        try:
            self._schema = orjson.dumps(self._adapter.json_schema()).decode()
        except (PydanticInvalidForJsonSchema, PydanticUserError):
            raise TypeError(f"{hint!r} is not a type that can be sent: no JSON schema describes it") from None

    def facts(self) -> dict[str, Any]:
        return {SCHEMA: self._schema} if self._is_described else {}

    def from_element(self, element: Any) -> Any:
        return self._validated(as_text(element))

    def element(self, value: Any) -> str:
        try:
            return (encode(value) if self._any else self._dump_json(self._validate(value))).decode()
        except ValidationError as error:
            raise ValueError(format_faults(error)) from None
        except (TypeError, ValueError) as error:  # pydantic's serialization error is a ValueError
            raise TypeError(f"cannot be written as JSON: {error}") from None

    def _validate(self, value: Any) -> Any:
        """Validate a value, if necessary after its numbers, arrays and data frames are converted to JSON."""
        try:
            return self._adapter.validate_python(value, from_attributes=True)
        except ValidationError as error:
            try:
                return self._validated(encode(value))
            except (TypeError, ValueError):
                raise error from None

    def check(self, value: Any) -> None:
        if self._class is not None and not isinstance(value, self._class):
            raise TypeError(f"takes an instance of {self._class.__name__}, got {format_brief(value)}")
        try:
            self._adapter.validate_python(value, strict=True)
        except ValidationError as error:
            raise ValueError(format_faults(error)) from None

    def from_json(self, value: Any) -> Any:
        # Validate as JSON, so that a string can represent a time, and a list a tuple.
        return value if self._any else self._validated(encode(value))

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        text = encode(value)
        if not self._any:
            self._validated(text)
        return [1], [text.decode()]

    def to_json(self, value: Any) -> Any:
        return orjson.Fragment(self.element(value))


class Raw(Json):
    """A value of any type, in any tensor, that an annotated validator receives as the client sent it."""

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        values = tensor.data.flat()
        if len(values) != 1 or tensor.datatype != "BYTES":
            return self.from_json(values if tensor.shape != [1] else get_single(tensor))
        text = as_text(values[0])
        try:
            sent = decode(text)
        except orjson.JSONDecodeError:
            sent = text  # a plain string, for a validator of strings
        return self.from_json(sent)
