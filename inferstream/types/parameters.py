"""Parameters of payloads, and the headers of transports, which model code finds in them."""

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping
from typing import Annotated, Any, Protocol, Self

import pydantic
from pydantic import ConfigDict, PlainSerializer, WrapValidator

from .base import BaseModel, FieldValues


class Origin(Protocol):
    """The context of an RPC or the exchange of a request, as far as headers need it."""

    @property
    def peer(self) -> str: ...

    @property
    def identities(self) -> tuple[str, ...]: ...


Pairs = Iterable[tuple[bytes | str, bytes | str]]

CarriedHeaders = tuple[Callable[..., Mapping[str, str]], *tuple[Any, ...]]
"""A function that makes headers, and its arguments."""


class Headers(MutableMapping[str, str]):
    """Headers of a request, or metadata of an RPC, by lower-case name. The first access decodes them.

    A repeated header has its last value, as in MLServer. `more` returns the headers that the server adds. `origin`
    knows the client.
    """

    __slots__ = ("_decoded", "_more", "_origin", "_raw", "carried")

    def __init__(
        self,
        raw: Pairs,
        more: Callable[[], Mapping[str, str]] | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._raw = raw
        self._more = more
        self._origin = origin
        self._decoded: dict[str, str] | None = None
        self.carried: CarriedHeaders = Headers, raw, more
        """Makes a copy, for a context: one that knew the client would be in a cycle with the task of the client."""

    @property
    def origin(self) -> Origin | None:
        """What knows the client; None where the transport, or this process, does not."""
        return self._origin

    @property
    def raw(self) -> Pairs:
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
            self.carried = Headers, self._decoded.items()
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

    def __reduce__(self) -> tuple[Any, ...]:
        # The client's connection can be neither copied nor pickled.
        return Headers, (list(self._all().items()),)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


assign = object.__setattr__
read = object.__getattribute__
new = object.__new__
# The slots themselves: `assign` looks each slot up by name, which takes a fifth of an instance's time.
_set_names, _set_fields, _set_extra, _set_private = (
    vars(pydantic.BaseModel)[slot].__set__
    for slot in ("__pydantic_fields_set__", "__dict__", "__pydantic_extra__", "__pydantic_private__")
)


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

    # Slots and not fields, so that comparisons, dumps and copies omit them. The first two names are MLServer's.
    __slots__ = ("_aside", "_decoded_from", "_decoded_payload")

    @classmethod
    def of(
        cls,
        extra: FieldValues | None = None,
        content_type: str | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Self:
        """Checked parameters, without validation."""
        parameters = new(cls)
        _set_fields(parameters, {"content_type": content_type, "headers": headers})
        names = set() if content_type is None else {"content_type"}
        if headers is not None:
            names.add("headers")
        _set_names(parameters, names)
        _set_extra(parameters, {} if extra is None else extra)  # where further keys go
        _set_private(parameters, None)
        return parameters

    @classmethod
    def aside(cls, headers: Mapping[str, Any] | None = None) -> Self:
        """Parameters that a client did not send. They hold what the server adds, and no dump shows them as they are."""
        parameters = cls.of()
        assign(parameters, "_aside", True)
        if headers is not None:
            parameters.carry(headers)
        return parameters

    @property
    def given(self) -> bool:
        """Whether they are part of a body."""
        return bool(self.content_type or self.__pydantic_extra__) or not _holds(self, "_aside")

    def carry(self, headers: Mapping[str, Any]) -> None:
        """Hold the headers of the transport. No dump shows them."""
        self.__dict__.update(headers=headers)

    @property
    def has_decoded(self) -> bool:
        """Whether a decoded form of the tensor or request is stored here. It is never sent."""
        return _holds(self, "_decoded_payload")

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


def _holds(parameters: Parameters, slot: str) -> bool:
    try:
        # Bypasses pydantic's `__getattr__`, which takes microseconds for an empty slot.
        read(parameters, slot)
    except AttributeError:
        return False
    return True
