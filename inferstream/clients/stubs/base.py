"""The base classes of stubs. Each method of a stub calls a model, with the types of its annotations."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GenericAlias, MethodType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, get_args, get_origin, get_type_hints

from ...functions.function import Function
from ..asked import AskedCall, Exit
from ..blocking import Client
from ..client import AsyncClient
from ..model_types import ModelTypes, types_of_function
from ..transport import ModelName

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", AsyncClient, Client)

DEFAULT: Any = ...
"""A default that has no literal. The model uses its own."""


class ServerStub(Generic[C]):
    """The models of an app at `server`, which is a URL or a client. The options are those of the client."""

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
    """The models of an app. The options are those of `AsyncClient`."""

    _client_class = AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exit: *Exit) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()


class Stub(ServerStub[Client]):
    """The models of an app. The options are those of `Client`."""

    _client_class = Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit: *Exit) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def remote(model: str, version: str | None = None) -> Callable[[F], F]:
    """Make a method of a stub call a model. Its annotations are the types; its body never runs.

    An argument annotated `Iterable[T]` is a stream: callers may pass a list or a generator.
    """
    name = ModelName(model, version)

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        @functools.cache  # not at import: the annotations may name classes further down
        def described() -> tuple[Function, ModelTypes]:
            function.__annotations__ = {
                key: GenericAlias(Iterator, get_args(hint)) if get_origin(hint) is Iterable else hint
                for key, hint in get_type_hints(function, include_extras=True).items()
            }
            declared = Function(MethodType(function, object()), model, version)
            return declared, types_of_function(declared)

        def ask(client: AsyncClient, *given: Any, **named: Any) -> AskedCall:
            _, *arguments = signature.bind(*given, **named).arguments.items()
            sent = {key: value for key, value in arguments if value is not DEFAULT}
            return client.asked(name, sent, described()[1])

        async def predict_async(self: AsyncStub, *given: Any, **named: Any) -> Any:
            return await self.client.predict_asked(ask(self.client, self, *given, **named))

        def call(self: Stub, *given: Any, **named: Any) -> Any:
            signature.bind(self, *given, **named)  # a wrong call fails here, not at the first item
            stream = described()[0].annotated_stream
            method = self.client.stream_asked if stream else self.client.predict_asked
            return method(lambda client: ask(client, self, *given, **named))

        def chosen(self: AsyncStub | Stub, *given: Any, **named: Any) -> Any:
            if isinstance(self, Stub):
                return call(self, *given, **named)
            return self.client.stream_asked(ask(self.client, self, *given, **named))

        method: Any = predict_async if inspect.iscoroutinefunction(function) else chosen
        return cast(F, functools.update_wrapper(method, function))

    return decorate
