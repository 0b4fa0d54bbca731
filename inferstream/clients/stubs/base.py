"""The base classes of generated stubs.

Each method of a stub calls a model with the types in its annotations.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GenericAlias, MethodType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, get_args, get_origin, get_type_hints

from ...functions.function import Function
from ..blocking import Client
from ..client import AsyncClient
from ..client_call import ClientCall, Exit
from ..model_types import ModelTypes, derive_types
from ..transport import ModelName

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", AsyncClient, Client)

DEFAULT: Any = ...
"""A default value that cannot be written as a literal. The model uses its own default."""


class ServerStub(Generic[C]):
    """The models of an app on `server`, a URL or a client. The other arguments apply only to a URL."""

    _client_class: ClassVar[type[Any]]

    def __init__(
        self,
        server: str | C,
        *,
        timeout: float = 60.0,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        verify: bool = True,
    ) -> None:
        options: dict[str, Any] = {
            "timeout": timeout,
            "retries": retries,
            "headers": headers,
            "verify": verify,
        }
        self.client: C = self._client_class(server, **options) if isinstance(server, str) else server


class AsyncStub(ServerStub[AsyncClient]):
    """The models of an app. Accepts the same options as `AsyncClient`."""

    _client_class = AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exit: *Exit) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()


class Stub(ServerStub[Client]):
    """The models of an app. Accepts the same options as `Client`."""

    _client_class = Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit: *Exit) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def remote(model: str, version: str | None = None) -> Callable[[F], F]:
    """Turn a stub method into a call to a model. Its annotations are the types, and its body never runs.

    An argument annotated as `Iterable[T]` is a stream. Callers can pass a list or a generator.
    """
    name = ModelName(model, version)

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.cache  # computed on first use: the annotations may refer to classes defined later
        def describe() -> tuple[Function, ModelTypes]:
            function.__annotations__ = {
                key: GenericAlias(Iterator, get_args(hint)) if get_origin(hint) is Iterable else hint
                for key, hint in get_type_hints(function, include_extras=True).items()
            }
            declared = Function(MethodType(function, object()), model, version)
            return declared, derive_types(declared)

        def ask(client: AsyncClient, *given: Any, **named: Any) -> ClientCall:
            _, *arguments = signature.bind(*given, **named).arguments.items()
            sent = {key: value for key, value in arguments if value is not DEFAULT}
            return client.build_call(name, sent, describe()[1])

        async def predict_async(self: AsyncStub, *given: Any, **named: Any) -> Any:
            return await self.client.predict_call(ask(self.client, self, *given, **named))

        def call(self: Stub, *given: Any, **named: Any) -> Any:
            signature.bind(self, *given, **named)  # raises TypeError here, not at the first item
            stream = describe()[0].annotated_stream
            method = self.client.stream_call if stream else self.client.predict_call
            return method(lambda client: ask(client, self, *given, **named))

        def chosen(self: AsyncStub | Stub, *given: Any, **named: Any) -> Any:
            if isinstance(self, Stub):
                return call(self, *given, **named)
            return self.client.stream_call(ask(self.client, self, *given, **named))

        method: Any = predict_async if inspect.iscoroutinefunction(function) else chosen
        return cast(F, functools.update_wrapper(method, function))

    return decorate
