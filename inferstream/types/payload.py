"""The base class of payloads: slotted classes that pydantic can validate, dump and use as field types."""

import copy
from abc import ABCMeta
from collections.abc import Collection, Iterator
from dataclasses import make_dataclass
from typing import Any, ClassVar, Self, cast

import pydantic
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, SchemaSerializer, SchemaValidator

from .base import BaseModel, FieldValues, OlderNames

new = object.__new__

ABSENT: Any = object()
"""The default of a field that the caller did not pass."""

GIVEN = {"exclude_unset": True, "exclude_none": True}
"""Default dump options. Headers that the server adds to parameters count as unset."""


def _get_fields(payload: "Payload") -> FieldValues:
    fields = {name: getattr(payload, name) for name in payload.model_fields}
    parameters = fields["parameters"]
    if parameters is not None and not parameters.given:
        fields["parameters"] = None
    return fields


def _set_fields(payload: "Payload", fields: FieldValues) -> None:
    payload._begin()
    for name, value in fields.items():
        setattr(payload, name, value)


class _Slotted(ABCMeta):
    """The metaclass of payloads. Each payload class has a pydantic model of its fields.

    `__class__` of an instance is this model, so that `isinstance(request, pydantic.BaseModel)` is true for
    FastAPI, `singledispatch` and pydantic. A subclass without `__slots__` gets slots for the fields that it
    adds, because an instance `__dict__` would hide the property of the same name.
    """

    _model: type[BaseModel]

    # A subclass may also have abstract base classes, whose instance checks are slower.
    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        names: FieldValues,
        fields: FieldValues | None = None,
        **options: Any,
    ) -> "_Slotted":
        names = {"__slots__": (), "__dict__": property(_get_fields, _set_fields), **names}
        if fields is not None:
            made_from = {"__base__": BaseModel, "__module__": names["__module__"], **fields}
            return cls._over(pydantic.create_model(name, **made_from), bases, names)
        models: tuple[Any, ...] = tuple(getattr(base, "_model", base) for base in bases)
        parent = next((base for base in models if issubclass(base, BaseModel)), None)
        if parent is None:
            return super().__new__(cls, name, bases, names)
        own = {key: value for key, value in names.items() if key not in _OURS}
        model = type(parent)(name, models, own, **options)
        added = {*model.model_fields, *model.__private_attributes__}
        names = {key: value for key, value in names.items() if key not in added}
        slots = added.difference(parent.model_fields, parent.__private_attributes__)
        names["__slots__"] = (*names["__slots__"], *slots)
        if model.__private_attributes__:
            names["model_post_init"] = model.model_post_init
            names["__private_attributes__"] = model.__private_attributes__
        return cls._over(model, bases, {**names, "exact": False})

    @classmethod
    def _over(cls, model: type[BaseModel], bases: tuple[type, ...], names: FieldValues) -> "_Slotted":
        name = model.__name__
        made = cast(
            type[Payload], super().__new__(cls, name, bases, {**names, "_model": model, "__class__": model})
        )
        schema = cast(FieldValues, model.__pydantic_core_schema__)
        _find_schema(model, schema)["cls"] = made
        setattr(model, "__new__", lambda _, **values: made(**values))  # noqa: B010  # for `request.__class__(...)`
        fields = model.model_fields
        made.model_fields = fields
        made.__pydantic_decorators__ = model.__pydantic_decorators__  # older pydantic versions read it
        made.__dataclass_fields__ = cast(Any, make_dataclass(name, fields)).__dataclass_fields__
        made.__pydantic_core_schema__ = cast(CoreSchema, schema)
        made.__pydantic_validator__ = SchemaValidator(made.__pydantic_core_schema__)
        made.__pydantic_serializer__ = SchemaSerializer(made.__pydantic_core_schema__)
        model.__pydantic_validator__ = made.__pydantic_validator__
        return made

    def __getattr__(cls, name: str) -> Any:
        """Look up pydantic class attributes such as `schema` on the model.

        Most names with a leading underscore are excluded, because `copy` looks for special methods on the
        class.
        """
        if name[0] == "_" and name not in {"__fields__", "__signature__"}:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return getattr(cls._model, name)


def _find_schema(model: type[BaseModel], schema: FieldValues) -> FieldValues:
    """Return the part of the core schema, in validators or definitions, that creates instances of `model`."""
    for part in (schema, *schema.get("definitions", ())):
        while part["type"] != "model" and "schema" in part:
            part = part["schema"]
        if part.get("cls") is model:
            break
    return cast(FieldValues, part)


_OURS = {"__slots__", "__dict__", "__classcell__"}
"""Names in a subclass namespace that its pydantic model must not receive."""


def _set_private(payload: "Payload", values: FieldValues | None) -> None:
    for name, value in (values or {}).items():
        setattr(payload, name, value)


class Payload(OlderNames, metaclass=_Slotted):
    """A payload with the methods of a pydantic model. Its attributes are slots, or properties over slots.

    Calling a subclass validates its `fields`, and its method `of` accepts checked values. `model_dump` and
    `model_dump_json` omit fields that are None. `dict` keeps all fields.
    """

    __slots__ = ("__weakref__",)

    model_config: ClassVar = BaseModel.model_config
    model_fields: ClassVar[FieldValues]
    model_extra = None
    _slots: ClassVar[tuple[str, ...]]

    # Attributes that pydantic reads from the class and from instances.
    __pydantic_core_schema__: ClassVar[CoreSchema]
    __pydantic_decorators__: ClassVar[Any]
    __pydantic_serializer__: ClassVar[SchemaSerializer]
    __pydantic_validator__: ClassVar[SchemaValidator]
    __pydantic_root_model__ = False
    __pydantic_extra__ = property(lambda payload: None, lambda payload, extra: None)
    __pydantic_private__ = property(lambda payload: None, _set_private)
    """Private attributes of a subclass are stored in slots."""

    __dataclass_fields__: ClassVar[FieldValues]
    """Makes FastAPI read payloads from the body, as it does for dataclasses, instead of from the query."""

    exact: ClassVar = True
    """False for subclasses that may add fields, which the constructor cannot check without pydantic."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        slots = (slot for base in cls.__mro__ for slot in getattr(base, "__slots__", ()))
        cls._slots = tuple(slot for slot in slots if slot != "__weakref__")

    def __init__(self, **fields: Any) -> None:
        present = {name: value for name, value in fields.items() if value is not ABSENT}
        self.__pydantic_validator__.validate_python(present, self_instance=self)

    def _begin(self) -> None:
        """Prepare an instance before its fields are set."""

    @property
    def model_fields_set(self) -> set[str]:
        """The fields that are not None."""
        return {name for name, value in self.__dict__.items() if value is not None}

    __fields_set__ = model_fields_set

    __pydantic_fields_set__ = property(lambda payload: payload.model_fields_set, lambda payload, names: None)

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
        """Create an instance from unchecked values, with defaults for the missing fields."""
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

    def copy(
        self, *, include: Collection[str] | None = None, exclude: Collection[str] = (), **options: Any
    ) -> Self:
        made = self.model_copy(**options)
        for name in self.model_fields.keys() - (self.model_fields if include is None else include) | {
            *exclude
        }:
            setattr(made, name, None)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return new, (type(self),), self.__getstate__()

    def __getstate__(self) -> tuple[None, FieldValues]:
        return None, {name: getattr(self, name) for name in self._slots if hasattr(self, name)}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.__dict__.items())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, value in self)
