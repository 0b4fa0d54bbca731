"""`AsyncClient`: calls the models of a server with Python values, over REST or gRPC."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..errors import CallFailed
from ..types import InferenceResponse, MetadataModelResponse
from .asked import AskedCall, Exit, Scalar, limited
from .model_types import ModelTypes, PreparedCall, types_of_function, types_of_metadata
from .retries import nothing_began, retried
from .tables import Table, given
from .transport import ModelName, OutgoingCall, Target, Transport

if TYPE_CHECKING:
    from ..functions.app import App
    from .grpc import GrpcTransport
    from .rest import RestTransport
    from .tables import Arguments

T = TypeVar("T")

CONNECT = 60.0
"""Seconds that a connection may take, where calls have more."""

CONNECTIONS = 1000
"""Connections of one client over REST. Each call in progress has one."""

SCHEMES = {"http": False, "https": False, "grpc": True, "grpcs": True}
"""The schemes of URLs, and whether they are those of gRPC."""


class AsyncClient:
    """A client of one server: `http://host:8080`, `https://...`, `grpc://host:8081` or `grpcs://...`.

    Arguments and results are Python values. Their types are those in the metadata of each model, or the annotations
    of `app`: an `App`, or its import path `module:app`. `timeout` is the limit of a call in seconds, a whole stream
    included; the server gets it as the deadline. `math.inf` is no limit. `retries` is the number of further attempts
    at a call that no model has begun. `headers` go with every call. With `verify=False` any certificate is accepted.
    Calls raise `CallFailed`, and TypeError or ValueError for a wrong argument.
    """

    _functions: dict[ModelName, ModelTypes]

    def __init__(
        self,
        url: str,
        *,
        app: "App | str | None" = None,
        timeout: float = 60.0,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        verify: bool = True,
    ) -> None:
        scheme = url.partition("://")[0].lower() if "://" in url else "http"
        if scheme not in SCHEMES:
            raise ValueError(f"{url} is no URL of a server: it begins with {', '.join(SCHEMES)}")
        self._over_grpc = SCHEMES[scheme]
        connect = min(timeout, CONNECT)
        target = Target(url, connect, headers=headers or {}, verify=verify, connections=CONNECTIONS)
        # Compression takes longer than it saves, except over slow networks.
        known = {**({} if self._over_grpc else {"accept-encoding": "identity"}), **(headers or {})}
        self._call_over(transport_to(target, self._over_grpc), timeout, retries, known)
        if app is not None:
            self._functions = _functions(app)

    @classmethod
    def over_typed_rpcs(cls, url: str, app: "App", *, timeout: float = 60.0, retries: int = 2) -> Self:
        """A client of the typed RPCs of `app`, as every client that has its `.proto` file. `url` is one of gRPC."""
        from .typed import TypedTransport  # late, as in `transport_to`

        client = cls(url, app=app, timeout=timeout, retries=retries)
        client._transport = TypedTransport(Target(url, timeout), app)
        return client

    def _call_over(
        self, transport: Transport, timeout: float, retries: int, headers: Mapping[str, str]
    ) -> None:
        self._transport = transport
        self._timeout = timeout
        self._retries = retries
        self._headers = headers
        self._functions = {}
        self._known: dict[ModelName, ModelTypes] = {}
        self._fetching = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exit: *Exit) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def predict(
        self,
        model: str,
        arguments: "Arguments | None" = None,
        /,
        *,
        version: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] = (),
        **named: Any,
    ) -> Any:
        """The result of a model for these arguments, by name, in a mapping, as a list of rows or as a data frame.

        Several outputs are a dictionary by name, or a tuple if the types are those of an app. An argument that is an
        iterator is a stream. `parameters` are those of the request, such as `max_tokens` of text models. `outputs` are
        the names of those that the model should return; by default it decides.
        """
        known = given(arguments, named)
        asked = self._asked(ModelName(model, version), known, timeout, headers, parameters)
        asked.outputs = outputs
        return await self.predict_asked(asked)

    def stream(
        self,
        model: str,
        arguments: "Arguments | None" = None,
        /,
        *,
        version: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        outputs: Sequence[str] = (),
        **named: Any,
    ) -> AsyncGenerator[Any, None]:
        """Each item of a stream, when it arrives. Leaving the loop cancels the call on the server.

        The arguments are those of `predict`.
        """
        known = given(arguments, named)
        asked = self._asked(ModelName(model, version), known, timeout, headers, parameters)
        asked.outputs = outputs
        return self.stream_asked(asked)

    async def models(self, *, timeout: float | None = None) -> list[str]:
        """The names of the models that are ready."""
        asked = self._asked(ModelName(""), {}, timeout)
        async with limited(asked):
            index = await self._attempts(asked, lambda: self._transport.index(asked.left()))
        return sorted({item.name for item in index})

    async def metadata(
        self, model: str, *, version: str | None = None, timeout: float | None = None
    ) -> MetadataModelResponse:
        """What the server says of a model."""
        asked = self._asked(ModelName(model, version), {}, timeout)
        async with limited(asked):
            return await self._metadata(asked)

    async def ready(
        self, model: str | None = None, *, version: str | None = None, timeout: float | None = None
    ) -> bool:
        """Whether a model is ready, or the server without a model. Raises CallFailed without a connection."""
        asked = self._asked(ModelName(model or "", version), {}, timeout)
        async with limited(asked):
            name = None if model is None else asked.model
            return await self._transport.ready(name, asked.left())

    def asked(self, model: ModelName, arguments: Mapping[str, Any], types: ModelTypes | None) -> AskedCall:
        """A call with the limits of this client, for a stub."""
        asked = self._asked(model, arguments, None)
        asked.types = types
        return asked

    async def predict_asked(self, asked: AskedCall) -> Any:
        """The result of a call, once."""
        async with limited(asked):
            types, response = await self._called(asked, self._infer)
        return types.value(response)

    async def stream_asked(self, asked: AskedCall) -> AsyncGenerator[Any, None]:
        """Each item of the stream of a call, once."""
        async with limited(asked):
            types, (responses, response) = await self._called(asked, self._open)
        try:
            while response is not None:
                yield types.value(response)
                async with limited(asked):
                    response = await anext(responses, None)
        finally:
            await responses.aclose()

    async def _infer(self, asked: AskedCall, prepared: PreparedCall) -> InferenceResponse:
        if prepared.more is None:
            return await self._transport.infer(self._outgoing(asked, prepared))
        responses, response = await self._open(asked, prepared)
        try:
            if response is None or await anext(responses, None) is not None:
                many = "no" if response is None else "more than one"
                raise CallFailed(f"The model answered {many} item; call it by stream()")
        finally:
            await responses.aclose()
        return response

    async def _open(
        self, asked: AskedCall, prepared: PreparedCall
    ) -> tuple[AsyncGenerator[InferenceResponse, None], InferenceResponse | None]:
        responses = self._transport.stream(self._outgoing(asked, prepared))
        try:
            return responses, await anext(responses, None)
        except BaseException:  # a cancel too
            await responses.aclose()
            raise

    def _outgoing(self, asked: AskedCall, prepared: PreparedCall) -> OutgoingCall:
        if self._over_grpc and prepared.null is not None:
            raise TypeError(
                f'model "{asked.model.name}": argument "{prepared.null}": gRPC has no null; ask over http'
            )
        return OutgoingCall(
            asked.model,
            prepared.request,
            asked.headers,
            asked.left(),
            binary=self._over_grpc or prepared.raw,
            more=prepared.more,
        )

    async def _called(
        self, asked: AskedCall, call: Callable[[AskedCall, PreparedCall], Awaitable[T]]
    ) -> tuple[ModelTypes, T]:
        """The result of a call, and the types it was made with.

        A model may have changed since its metadata were fetched. So a failure that may come from this is final only
        if the metadata have not changed.
        """
        types, are_new = await self._types(asked)
        while True:
            try:
                arguments = types.checked(asked.arguments)
                if not isinstance(asked.arguments, Table):
                    asked.arguments = arguments
                prepared = await types.prepare(arguments, asked.parameters, asked.outputs)
                return types, await self._attempts(asked, lambda: call(asked, prepared))  # noqa: B023
            except (TypeError, ValueError, CallFailed) as error:
                may_have_changed = not isinstance(error, CallFailed) or error.status in (400, 404)
                if are_new or not may_have_changed or asked.begun():
                    raise
                before = types
                self._known.pop(asked.model, None)
                types, are_new = await self._types(asked)
                if types == before:
                    raise

    async def _attempts(self, asked: AskedCall, call: Callable[[], Awaitable[T]]) -> T:
        def repeats(error: CallFailed) -> bool:
            return nothing_began(error) and not asked.begun()

        return await retried(call, self._retries, repeats, asked.until)

    async def _types(self, asked: AskedCall) -> tuple[ModelTypes, bool]:
        """The types of a model, and whether they are as new as can be."""
        types = asked.types or self._functions.get(asked.model)
        if types is not None:
            return types, True
        async with self._fetching:  # calls that begin together fetch once
            if (known := self._known.get(asked.model)) is not None:
                return known, False
            types = self._known[asked.model] = types_of_metadata(await self._metadata(asked))
        return types, True

    async def _metadata(self, asked: AskedCall) -> MetadataModelResponse:
        return await self._attempts(asked, lambda: self._transport.metadata(asked.model, asked.left()))

    def _asked(
        self,
        model: ModelName,
        arguments: Mapping[str, Any],
        timeout: float | None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Scalar] | None = None,
    ) -> AskedCall:
        seconds = self._timeout if timeout is None else timeout
        until = asyncio.get_running_loop().time() + seconds
        known = {**self._headers, **headers} if headers else self._headers
        return AskedCall(model, arguments, parameters or {}, known, seconds, until)


class InProcessClient(AsyncClient):
    """A client of the models of its own process. No call is repeated, because no connection can fail."""

    _over_grpc = False

    def __init__(self, transport: Transport) -> None:
        self._call_over(transport, math.inf, 0, {})


def transport_to(target: Target, over_grpc: bool) -> "RestTransport | GrpcTransport":
    """A transport over gRPC, or over REST. Raises MissingExtra if gRPC is not installed."""
    # Imported late: each client needs its own library only.
    if over_grpc:
        from .grpc import GrpcTransport

        return GrpcTransport(target)
    from .rest import RestTransport

    return RestTransport(target)


def _functions(app: "App | str") -> dict[ModelName, ModelTypes]:
    """The types of the functions of an app. Without a version, the last function of a name counts."""
    functions: Any = app
    if isinstance(app, str):
        module, _, name = app.partition(":")
        functions = getattr(import_module(module), name or "app")
    types = {}
    for function in functions:
        known = types_of_function(function)
        types[ModelName(function.name)] = types[ModelName(function.name, function.version)] = known
    return types
