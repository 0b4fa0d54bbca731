"""Parameters of requests, responses and tensors, including the transport headers that model code reads."""

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping
from typing import Annotated, Any, Protocol, Self

import pydantic
from pydantic import ConfigDict, PlainSerializer, WrapValidator

from .base import BaseModel, FieldValues


class Origin(Protocol):
    """The client of an RPC or HTTP request, as `Headers` exposes it."""

    @property
    def peer(self) -> str: ...

    @property
    def identities(self) -> tuple[str, ...]: ...


Pairs = Iterable[tuple[bytes | str, bytes | str]]

CarriedHeaders = tuple[Callable[..., Mapping[str, str]], *tuple[Any, ...]]
"""A function that builds headers, and its arguments."""


class Headers(MutableMapping[str, str]):
    """Request headers or RPC metadata, by lower-case name, decoded on first access.

    If a header is repeated, the last value wins, as in MLServer. `more` returns headers that the server adds.
    `origin` identifies the client.
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
        """Builds a copy for a request context, without `origin`, which would create a reference cycle."""

    @property
    def origin(self) -> Origin | None:
        """The origin of the request. None if the transport or this process has no access to it."""
        return self._origin

    @property
    def raw(self) -> Pairs:
        """The names and values as received."""
        return self._raw

    @property
    def peer(self) -> str | None:
        """The client address in gRPC format. None if the transport or this process has no access to it."""
        return None if self._origin is None else self._origin.peer

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the verified client certificate: subject alternative names, or the common name.

        Empty without such a certificate, or if the transport or this process has no access to it.
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
        # A client connection can be neither copied nor pickled.
        return Headers, (list(self._all().items()),)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


assign = object.__setattr__
read = object.__getattribute__
new = object.__new__
# The slot descriptors. Looking them up by name, as `assign` does, takes a fifth of the construction time.
_set_names, _set_fields, _set_extra, _set_private = (
    vars(pydantic.BaseModel)[slot].__set__
    for slot in ("__pydantic_fields_set__", "__dict__", "__pydantic_extra__", "__pydantic_private__")
)


class Parameters(BaseModel):
    """Parameters of a request, response or tensor: `content_type`, `headers` and any other keys.

    `content_type` is the name of a codec. `headers` are the transport headers, which are never part of a
    body.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=(), use_enum_values=True)

    content_type: str | None = None
    headers: Annotated[
        Mapping[str, Any] | None,
        WrapValidator(lambda value, check: value if isinstance(value, Headers) else check(value)),
        PlainSerializer(lambda headers: None if headers is None else dict(headers)),
    ] = None

    # Slots instead of fields, so that comparisons, dumps and copies omit them. MLServer has the last two.
    __slots__ = ("_aside", "_decoded_from", "_decoded_payload")

    @classmethod
    def of(
        cls,
        extra: FieldValues | None = None,
        content_type: str | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Self:
        """Create parameters from checked values, without validation."""
        parameters = new(cls)
        _set_fields(parameters, {"content_type": content_type, "headers": headers})
        names = set() if content_type is None else {"content_type"}
        if headers is not None:
            names.add("headers")
        _set_names(parameters, names)
        _set_extra(parameters, {} if extra is None else extra)  # where additional keys are stored
        _set_private(parameters, None)
        return parameters

    @classmethod
    def aside(cls, headers: Mapping[str, Any] | None = None) -> Self:
        """Create parameters that the client did not send, for values that the server adds.

        Dumps omit them until a parameter is set.
        """
        parameters = cls.of()
        assign(parameters, "_aside", True)
        if headers is not None:
            parameters.carry(headers)
        return parameters

    @property
    def given(self) -> bool:
        """Whether the parameters are part of a request or response body."""
        return bool(self.content_type or self.__pydantic_extra__) or not _holds(self, "_aside")

    def carry(self, headers: Mapping[str, Any]) -> None:
        """Attach the transport headers, which dumps omit."""
        self.__dict__.update(headers=headers)

    @property
    def has_decoded(self) -> bool:
        """Whether the decoded tensor or request is cached in these parameters. It is never sent."""
        return _holds(self, "_decoded_payload")

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a parameter, or `default` if it is absent or None."""
        if name in type(self).model_fields:
            value = self.__dict__[name]
        else:
            value = (self.__pydantic_extra__ or {}).get(name)
        return default if value is None else value

    def items(self) -> ItemsView[str, Any]:
        """Return the names and values of all parameters except headers and absent values."""
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
