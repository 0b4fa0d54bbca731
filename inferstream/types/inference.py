"""Inference requests and responses (Open Inference Protocol, "Inference Request JSON Object" and on)."""

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping
from typing import Annotated, Any, Protocol, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_serializer,
)

from .base import BaseModel, FieldValues, assign, new, set_dict, set_extra, set_fields_set
from .datatypes import NAMES, Datatype
from .tensor import TensorData


def _datatype_name(value: Any) -> Any:
    name = NAMES.get(value) if isinstance(value, str) else None
    if name is None:
        raise ValueError(f"unknown datatype {value!r}; known are {', '.join(Datatype.__members__)}")
    return name


DatatypeName = Annotated[
    str,
    BeforeValidator(_datatype_name),
    WithJsonSchema({"type": "string", "enum": list(Datatype.__members__)}),
]


class Origin(Protocol):
    """The context of an RPC or the exchange of a request, as far as headers need it."""

    @property
    def peer(self) -> str: ...

    @property
    def identities(self) -> tuple[str, ...]: ...


class Headers(MutableMapping[str, str]):
    """Headers of a request, or metadata of an RPC, by lower-case name. The first access decodes them.

    A repeated header has its last value, as in MLServer. `more` returns the headers that the server adds. `origin`
    knows the client.
    """

    __slots__ = ("_decoded", "_more", "_origin", "_raw")

    def __init__(
        self,
        raw: Iterable[tuple[bytes | str, bytes | str]],
        more: Callable[[], Mapping[str, str]] | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._raw = raw
        self._more = more
        self._origin = origin
        self._decoded: dict[str, str] | None = None

    @property
    def origin(self) -> Origin | None:
        """What knows the client; None where the transport, or this process, does not."""
        return self._origin

    @property
    def raw(self) -> Iterable[tuple[bytes | str, bytes | str]]:
        """Names and values as they arrived."""
        return self._raw

    @property
    def peer(self) -> str | None:
        """The address of the client, in gRPC's form. None where the transport, or this process, does not know it."""
        return None if self._origin is None else self._origin.peer

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's certificate that the server has verified: subject alternative names, else the
        common name. Empty without such a certificate, and where the transport or this process does not know it.
        """
        return () if self._origin is None else self._origin.identities

    def _all(self) -> dict[str, str]:
        if self._decoded is None:
            self._decoded = {_text(name).lower(): _text(value) for name, value in self.raw}
            if self._more is not None:
                self._decoded.update(self._more())
        return self._decoded

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._all()[name] = value

    def __delitem__(self, name: str) -> None:
        del self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


read = object.__getattribute__


class Parameters(BaseModel):
    """Parameters of a request, response or tensor: `content_type`, `headers` and any further keys.

    `content_type` names a codec. `headers` holds the headers of the transport and is never part of a body.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=(), use_enum_values=True)

    content_type: str | None = None
    headers: Annotated[
        Mapping[str, Any] | None,
        WrapValidator(lambda value, check: value if isinstance(value, Headers) else check(value)),
        PlainSerializer(lambda headers: None if headers is None else dict(headers)),
    ] = None

    # Slots and not fields, so that comparisons, dumps and copies omit them. The first name is MLServer's.
    __slots__ = ("_decoded_from", "_decoded_payload")

    @classmethod
    def trusted(cls, names: FieldValues, extra: FieldValues | None = None) -> Self:
        return super().trusted(names, {} if extra is None else extra)

    @classmethod
    def filled(
        cls, fields: FieldValues, names: set[str] | None = None, extra: FieldValues | None = None
    ) -> Self:
        model = new(cls)
        if names is not None:
            set_fields_set(model, names)
        set_dict(model, fields)
        set_extra(model, {} if extra is None else extra)  # where further keys go
        return model

    def _given(self) -> set[str]:
        # Without the headers, which the server adds to what a client gave, and which no dump may show then.
        return set() if self.__dict__["content_type"] is None else {"content_type"}

    @property
    def has_decoded(self) -> bool:
        """Whether a decoded form of the tensor or request is stored here. It is never sent."""
        try:
            # Bypasses pydantic's `__getattr__`, which takes microseconds for an empty slot.
            read(self, "_decoded_payload")
        except AttributeError:
            return False
        return True

    @property
    def decoded(self) -> Any:
        """The decoded form, or None."""
        return getattr(self, "_decoded_payload", None)

    @property
    def decoded_from(self) -> Any:
        """The source of the decoded form; None if it is unknown."""
        return getattr(self, "_decoded_from", None)

    def keep_decoded(self, value: Any, source: Any = None) -> None:
        """Store the decoded form of `source`, so that a codec decodes it once."""
        assign(self, "_decoded_payload", value)
        assign(self, "_decoded_from", source)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a parameter; `default` if it is absent or None."""
        if name in type(self).model_fields:
            value = self.__dict__[name]
        else:
            value = (self.__pydantic_extra__ or {}).get(name)
        return default if value is None else value

    def items(self) -> ItemsView[str, Any]:
        """Names and values of all parameters, without headers and absent values."""
        content_type = self.content_type
        sent = {} if content_type is None else {"content_type": content_type}
        if self.__pydantic_extra__:
            sent.update((name, value) for name, value in self.__pydantic_extra__.items() if value is not None)
        return sent.items()


class Tensor(BaseModel):
    """A tensor. Values assigned to `data` become a `TensorData`."""

    name: str
    shape: list[int]
    datatype: DatatypeName
    parameters: Parameters | None = None
    data: TensorData

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data" and not isinstance(value, TensorData):
            value = TensorData(value)
        super().__setattr__(name, value)


class RequestInput(Tensor):
    """One input tensor.

    `shape` holds one size per dimension. `data` holds as many values as the product of the sizes, in row-major
    order. `datatype` is a name of `Datatype`.
    """


class RequestOutput(BaseModel):
    """The name of an output that the client asks for."""

    name: str
    parameters: Parameters | None = None


class ResponseOutput(Tensor):
    """One output tensor.

    `shape` holds one size per dimension. `data` holds as many values as the product of the sizes, in row-major
    order. `datatype` is a name of `Datatype`.
    """


def _no_parameters() -> Parameters:
    """Parameters of a request that has none. Model code may read the headers there."""
    return Parameters.filled({"content_type": None, "headers": Headers(())}, set())


class InferenceRequest(BaseModel):
    """A request to a model.

    The server sets `id` if the client did not. `outputs` names the outputs that the client asks for; None is all.
    Headers are in `parameters.headers`.
    """

    id: str | None = None
    parameters: Parameters | None = Field(default_factory=_no_parameters)
    inputs: list[RequestInput]
    outputs: list[RequestOutput] | None = None

    @field_serializer("parameters", mode="wrap")
    def _only_given_parameters(self, parameters: Any, serialize: SerializerFunctionWrapHandler) -> Any:
        return serialize(parameters) if "parameters" in self.model_fields_set else None

    def model_dump(self, **options: Any) -> FieldValues:
        self._notice_parameters()
        return super().model_dump(**options)

    def model_dump_json(self, **options: Any) -> str:
        self._notice_parameters()
        return super().model_dump_json(**options)

    def dict(self, **options: Any) -> FieldValues:
        self._notice_parameters()
        return super().dict(**options)

    def _notice_parameters(self) -> None:
        """Count the parameters as set if they hold more than headers."""
        parameters = self.parameters
        if parameters is not None and (parameters.content_type or parameters.__pydantic_extra__):
            self.model_fields_set.add("parameters")


class InferenceResponse(BaseModel):
    """A response of a model: a single response, or one item of a stream.

    The server sets `id`, and `model_version` if it is absent. `parameters.headers` become headers of the transport.
    """

    model_name: str
    model_version: str | None = None
    id: str | None = None
    parameters: Parameters | None = None
    outputs: list[ResponseOutput]


class InferenceErrorResponse(BaseModel):
    """The body of a failed V2 request."""

    error: str | None = None
