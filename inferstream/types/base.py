"""The pydantic base class of V2 types, with its default dump options and the methods of pydantic 1."""

from pathlib import Path
from typing import Any, Self, cast

import pydantic
from pydantic import ConfigDict

FieldValues = dict[str, Any]  # named here because a method called `dict` hides the type inside the class


class OlderNames:
    """The class methods of pydantic 1, for model code that uses them."""

    __slots__ = ()

    @classmethod
    def parse_obj(cls, obj: Any) -> Self:
        return cast(Self, cast(Any, cls).model_validate(obj))

    @classmethod
    def parse_raw(cls, b: str | bytes, **_: Any) -> Self:
        return cast(Self, cast(Any, cls).model_validate_json(b))

    @classmethod
    def parse_file(cls, path: str | Path, **_: Any) -> Self:
        return cast(Self, cast(Any, cls).model_validate_json(Path(path).read_bytes()))


class BaseModel(OlderNames, pydantic.BaseModel):
    """The pydantic base class of V2 types.

    `model_dump` and `model_dump_json` omit fields that are unset or None. `dict` keeps all fields.
    """

    model_config = ConfigDict(protected_namespaces=(), use_enum_values=True)

    def model_dump(
        self, *, exclude_unset: bool = True, exclude_none: bool = True, **options: Any
    ) -> FieldValues:
        return super().model_dump(exclude_unset=exclude_unset, exclude_none=exclude_none, **options)

    def model_dump_json(
        self, *, exclude_unset: bool = True, exclude_none: bool = True, **options: Any
    ) -> str:
        return super().model_dump_json(exclude_unset=exclude_unset, exclude_none=exclude_none, **options)

    def dict(self, **options: Any) -> FieldValues:
        return super().model_dump(**options)

    def json(self, **options: Any) -> str:
        return self.model_dump_json(**options)

    @classmethod
    def construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        return cast(Self, cls.model_construct(_fields_set, **values))
