"""The base of payloads: slotted classes of our own that pydantic checks, dumps and takes as fields of its models."""

import copy
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any, ClassVar, Self, cast

import pydantic
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, SchemaSerializer, SchemaValidator

from .base import FieldValues, OlderNames

new = object.__new__

ABSENT: Any = object()
"""The value of a field that a call does not give."""

GIVEN = {"exclude_unset": True, "exclude_none": True}
"""Options of dumps. Headers that the server adds to parameters are not set."""


class _Slotted(type):
    """The type of payloads. A subclass without slots gets none: a `__dict__` of its instances would hide ours."""

    def __new__(cls, name: str, bases: tuple[type, ...], names: FieldValues, **options: Any) -> "_Slotted":
        return super().__new__(cls, name, bases, {"__slots__": (), **names}, **options)


class _Unkept:
    """An attribute that pydantic gives each model, and that a payload does not keep."""

    def __get__(self, instance: object, owner: type) -> None:
        return None

    def __set__(self, instance: object, value: object) -> None:
        pass


class Payload(OlderNames, metaclass=_Slotted):
    """A payload, with the methods of a pydantic model. Its attributes are slots, or properties over slots.

    A call of a subclass validates its `fields`; its method `of` takes checked values. `model_dump` and
    `model_dump_json` omit fields that are None; `dict` keeps all fields.
    """

    __slots__ = ()

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(
        protected_namespaces=(), use_enum_values=True
    )
    model_fields: ClassVar[FieldValues]
    model_extra = None
    _slots: ClassVar[tuple[str, ...]]

    # What pydantic reads of the class and the instances of a model.
    __pydantic_core_schema__: ClassVar[CoreSchema]
    __pydantic_serializer__: ClassVar[SchemaSerializer]
    __pydantic_validator__: ClassVar[SchemaValidator]
    __pydantic_root_model__ = False
    __pydantic_extra__ = __pydantic_private__ = _Unkept()

    __dataclass_fields__: ClassVar[FieldValues]
    """FastAPI reads models and dataclasses from the body, and other classes from the query."""

    def __init_subclass__(cls, fields: FieldValues | None = None) -> None:
        slots = (slot for base in cls.__mro__ for slot in getattr(base, "__slots__", ()))
        cls._slots = tuple(slot for slot in slots if slot != "__weakref__")
        if fields is None:
            return
        model: type[pydantic.BaseModel] = pydantic.create_model(
            cls.__name__, __config__=cls.model_config, __module__=cls.__module__, **fields
        )
        cls.model_fields = cast(FieldValues, model.model_fields)
        cls.__dataclass_fields__ = cast(Any, make_dataclass(cls.__name__, fields)).__dataclass_fields__
        schema = cast(FieldValues, model.__pydantic_core_schema__)
        (schema["schema"] if schema["type"] == "definitions" else schema)["cls"] = cls
        cls.__pydantic_core_schema__ = cast(CoreSchema, schema)
        cls.__pydantic_validator__ = SchemaValidator(cls.__pydantic_core_schema__)
        cls.__pydantic_serializer__ = SchemaSerializer(cls.__pydantic_core_schema__)

    def __init__(self, **fields: Any) -> None:
        present = {name: value for name, value in fields.items() if value is not ABSENT}
        self.__pydantic_validator__.validate_python(present, self_instance=self)

    def _begin(self) -> None:
        """Prepare an instance whose fields follow."""

    @property
    def __dict__(self) -> FieldValues:
        fields = {name: getattr(self, name) for name in self.model_fields}
        parameters = fields["parameters"]
        if parameters is not None and not parameters.given:
            fields["parameters"] = None
        return fields

    @__dict__.setter
    def __dict__(self, fields: FieldValues) -> None:
        self._begin()
        for name, value in fields.items():
            setattr(self, name, value)

    @property
    def model_fields_set(self) -> set[str]:
        """The fields that are not None."""
        return {name for name, value in self.__dict__.items() if value is not None}

    @property
    def __pydantic_fields_set__(self) -> set[str]:
        return self.model_fields_set

    @__pydantic_fields_set__.setter
    def __pydantic_fields_set__(self, names: set[str]) -> None:
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cls.__pydantic_core_schema__

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        return cast(Self, cls.__pydantic_validator__.validate_python(obj, **options))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        return cast(Self, cls.__pydantic_validator__.validate_json(json_data, **options))

    @classmethod
    def model_json_schema(cls, **options: Any) -> FieldValues:
        return pydantic.TypeAdapter(cls).json_schema(**options)

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        """An instance of unchecked values, with the defaults of the fields that are not among them."""
        payload = new(cls)
        payload._begin()
        for name, field in cls.model_fields.items():
            if name in values or not field.is_required():
                setattr(payload, name, values.get(name, field.get_default(call_default_factory=True)))
        return payload

    construct = model_construct

    def model_dump(self, *, mode: str = "python", **options: Any) -> FieldValues:
        fields = self.__pydantic_serializer__.to_python(self, mode=mode, **{**GIVEN, **options})
        return cast(FieldValues, fields)

    def model_dump_json(self, **options: Any) -> str:
        return self.__pydantic_serializer__.to_json(self, **{**GIVEN, **options}).decode()

    def dict(self, **options: Any) -> FieldValues:
        return self.model_dump(**{"exclude_unset": False, "exclude_none": False, **options})

    json = model_dump_json

    def model_copy(self, *, update: FieldValues | None = None, deep: bool = False) -> Self:
        made = copy.deepcopy(self) if deep else copy.copy(self)
        for name, value in (update or {}).items():
            setattr(made, name, value)
        return made

    copy = model_copy

    def __getstate__(self) -> tuple[None, FieldValues]:
        return None, {name: getattr(self, name) for name in self._slots if hasattr(self, name)}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.__dict__.items())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"
