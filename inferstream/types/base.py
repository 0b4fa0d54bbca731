"""The base class of V2 types: pydantic, with the dump defaults and older methods that model code uses."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import pydantic
from pydantic import ConfigDict

FieldValues = dict[str, Any]  # named here because a method called `dict` hides the type inside the class


class OlderNames(pydantic.BaseModel):
    """Class methods with pydantic 1's names, for model code that uses them."""

    @classmethod
    def parse_obj(cls, obj: Any) -> Self:
        return cls.model_validate(obj)

    @classmethod
    def parse_raw(cls, b: str | bytes, **_: Any) -> Self:
        return cls.model_validate_json(b)

    @classmethod
    def parse_file(cls, path: str | Path, **_: Any) -> Self:
        return cls.model_validate_json(Path(path).read_bytes())


class BaseModel(OlderNames):
    """A V2 payload, a pydantic model.

    `model_dump` and `model_dump_json` omit fields that were never set and fields that are None. `dict` keeps all
    fields.
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

    @classmethod
    def trusted(cls, names: FieldValues, extra: FieldValues | None = None) -> Self:
        """An instance of checked values, without validation. It costs less than half of `model_construct`."""
        model = new(cls)
        set_fields_set(model, set(names))
        set_dict(model, cls.__absent__ | names)
        set_extra(model, extra)
        _set_private(model, None)
        return model

    @classmethod
    def filled(cls, fields: FieldValues, names: set[str] | None = None) -> Self:
        """An instance with all its `fields`. `names` are the fields that count as set. Neither is copied.

        Without `names`, the fields that are not None count as set, and their set is made when it is first read: it
        would take a tenth to a third of an instance's time. Slots that would hold None stay empty.
        """
        model = new(cls)
        if names is not None:
            set_fields_set(model, names)
        set_dict(model, fields)
        return model

    def _given(self) -> set[str]:
        """The fields that count as set in an instance that was not told."""
        return {name for name, value in self.__dict__.items() if value is not None}

    if not TYPE_CHECKING:  # as in pydantic: otherwise every attribute would exist for type checkers

        def __getattr__(self, name: str) -> Any:
            if name in _EMPTY:
                return None
            if name == "__pydantic_fields_set__" and len(self.__dict__) == len(type(self).model_fields):
                names = (
                    self._given()
                )  # of `filled`, which has all fields; any other without a set is half-made
                set_fields_set(self, names)
                return names
            return super().__getattr__(name)

    __absent__: ClassVar[FieldValues] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.__absent__ = {
            name: None if field.default_factory else field.default
            for name, field in cls.model_fields.items()
            if not field.is_required()
        }


_EMPTY = {"__pydantic_extra__", "__pydantic_private__"}
"""Slots that `filled` leaves empty. None of these models has private attributes."""

assign = object.__setattr__
new = object.__new__
# The slots themselves: `assign` looks each slot up by name, which takes a fifth of an instance's time.
set_fields_set, set_dict, set_extra, _set_private = (
    vars(pydantic.BaseModel)[slot].__set__
    for slot in ("__pydantic_fields_set__", "__dict__", "__pydantic_extra__", "__pydantic_private__")
)
