"""`AsyncClient`: calls models with Python values, over REST or gRPC."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..errors import CallFailed
from ..types import InferenceResponse, MetadataModelResponse
from .client_call import ClientCall, Exit, Scalar, limited
from .model_types import ModelTypes, PreparedCall, derive_types, read_types
from .retries import never_started, retry
from .tables import Table, merge_arguments
from .transport import ModelName, OutgoingCall, Target, Transport

if TYPE_CHECKING:
    from ..functions.app import App
    from .grpc import GrpcTransport
    from .rest import RestTransport
    from .tables import Arguments

T = TypeVar("T")

CONNECT = 60.0
"""The maximum time to connect, in seconds. A shorter `timeout` of the client takes precedence."""

CONNECTIONS = 1000
"""The maximum number of REST connections of one client. Each call in progress uses one."""

SCHEMES = {"http": False, "https": False, "grpc": True, "grpcs": True}
"""The URL schemes, and whether they use gRPC."""


class AsyncClient:
    """An asynchronous client for one server.

    `url` is, for example, `http://host:8080`, `https://host`, `grpc://host:8081` or `grpcs://host`.

    Arguments and results are Python values. Their types come from the metadata of each model, or from the
    annotations of `app`, which is an `App` or its import path `module:app`.

    `timeout` is the time limit of a call in seconds, including the whole stream, and is sent to the server as
    the deadline. Use `math.inf` for no limit. `retries` is the number of additional attempts if a call fails
    before a model starts to process it. `headers` are sent with every call. `verify=False` accepts any TLS
    certificate.

    Calls raise `CallFailed`. They raise TypeError or ValueError if an argument is invalid.
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
        # Compression costs more time than it saves, except on slow networks.
        known = {**({} if self._over_grpc else {"accept-encoding": "identity"}), **(headers or {})}
        self._call_over(build_transport(target, self._over_grpc), timeout, retries, known)
        if app is not None:
            self._functions = _functions(app)

    @classmethod
    def over_typed_rpcs(cls, url: str, app: "App", *, timeout: float = 60.0, retries: int = 2) -> Self:
        """Return a client for the typed RPCs of `app`.

        It sends the messages that the app's `.proto` file defines.

        `url` is a gRPC URL.
        """
        from .typed import TypedTransport  # imported lazily, as in `build_transport`

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
        """Call a model and return its result.

        Pass the arguments by name, as a mapping, as a list of rows or as a data frame. An argument that is an
        iterator is sent as a stream. `parameters` are the request parameters, for example `max_tokens` of a
        language model. `outputs` are the names of the outputs to return. By default, the model decides.

        If the model has several outputs, the result is a dictionary keyed by output name, or a tuple if the
        types come from an app.
        """
        known = merge_arguments(arguments, named)
        asked = self._prepare(ModelName(model, version), known, timeout, headers, parameters)
        asked.outputs = outputs
        return await self.predict_call(asked)

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
        """Yield each item of a stream when it arrives. Closing the generator cancels the call on the server.

        Accepts the same arguments as `predict`.
        """
        known = merge_arguments(arguments, named)
        asked = self._prepare(ModelName(model, version), known, timeout, headers, parameters)
        asked.outputs = outputs
        return self.stream_call(asked)

    async def models(self, *, timeout: float | None = None) -> list[str]:
        """Return the names of all models that are ready."""
        asked = self._prepare(ModelName(""), {}, timeout)
        async with limited(asked):
            index = await self._retry(asked, lambda: self._transport.index(asked.seconds_left()))
        return sorted({item.name for item in index})

    async def metadata(
        self, model: str, *, version: str | None = None, timeout: float | None = None
    ) -> MetadataModelResponse:
        """Return the metadata of a model."""
        asked = self._prepare(ModelName(model, version), {}, timeout)
        async with limited(asked):
            return await self._metadata(asked)

    async def ready(
        self, model: str | None = None, *, version: str | None = None, timeout: float | None = None
    ) -> bool:
        """Return whether a model is ready, or whether the server is if no model is named.

        Raises CallFailed if the connection fails.
        """
        asked = self._prepare(ModelName(model or "", version), {}, timeout)
        async with limited(asked):
            name = None if model is None else asked.model
            return await self._transport.ready(name, asked.seconds_left())

    def build_call(
        self, model: ModelName, arguments: Mapping[str, Any], types: ModelTypes | None
    ) -> ClientCall:
        """Return a call with the time limit and headers of this client, for a generated stub."""
        asked = self._prepare(model, arguments, None)
        asked.types = types
        return asked

    async def predict_call(self, asked: ClientCall) -> Any:
        """Return the result of a call. A call can be made only once."""
        async with limited(asked):
            types, response = await self._call(asked, self._infer)
        return types.decode_response(response)

    async def stream_call(self, asked: ClientCall) -> AsyncGenerator[Any, None]:
        """Yield each item of a streaming call. A call can be made only once."""
        async with limited(asked):
            types, (responses, response) = await self._call(asked, self._open)
        try:
            while response is not None:
                yield types.decode_response(response)
                async with limited(asked):
                    response = await anext(responses, None)
        finally:
            await responses.aclose()

    async def _infer(self, asked: ClientCall, prepared: PreparedCall) -> InferenceResponse:
        if prepared.more is None:
            return await self._transport.infer(self._build_outgoing(asked, prepared))
        responses, response = await self._open(asked, prepared)
        try:
            if response is None or await anext(responses, None) is not None:
                many = "no" if response is None else "more than one"
                raise CallFailed(f"The model answered {many} item; call it by stream()")
        finally:
            await responses.aclose()
        return response

    async def _open(
        self, asked: ClientCall, prepared: PreparedCall
    ) -> tuple[AsyncGenerator[InferenceResponse, None], InferenceResponse | None]:
        responses = self._transport.stream(self._build_outgoing(asked, prepared))
        try:
            return responses, await anext(responses, None)
        except BaseException:  # including CancelledError
            await responses.aclose()
            raise

    def _build_outgoing(self, asked: ClientCall, prepared: PreparedCall) -> OutgoingCall:
        if self._over_grpc and prepared.null is not None:
            raise TypeError(
                f'model "{asked.model.name}": argument "{prepared.null}": gRPC has no null; ask over http'
            )
        return OutgoingCall(
            asked.model,
            prepared.request,
            asked.headers,
            asked.seconds_left(),
            binary=self._over_grpc or prepared.raw,
            more=prepared.more,
        )

    async def _call(
        self, asked: ClientCall, call: Callable[[ClientCall, PreparedCall], Awaitable[T]]
    ) -> tuple[ModelTypes, T]:
        """Return the result of a call, and the types used for it.

        The model may have changed since its metadata was fetched. If such a change may have caused a failure,
        the metadata is fetched again, and the call is repeated if the metadata differs.
        """
        types, are_new = await self._find_types(asked)
        while True:
            try:
                arguments = types.check(asked.arguments)
                if not isinstance(asked.arguments, Table):
                    asked.arguments = arguments
                prepared = await types.prepare(arguments, asked.parameters, asked.outputs)
                return types, await self._retry(asked, lambda: call(asked, prepared))  # noqa: B023
            except (TypeError, ValueError, CallFailed) as error:
                may_have_changed = not isinstance(error, CallFailed) or error.status in (400, 404)
                if are_new or not may_have_changed or asked.has_begun():
                    raise
                before = types
                self._known.pop(asked.model, None)
                types, are_new = await self._find_types(asked)
                if types == before:
                    raise

    async def _retry(self, asked: ClientCall, call: Callable[[], Awaitable[T]]) -> T:
        def repeats(error: CallFailed) -> bool:
            return never_started(error) and not asked.has_begun()

        return await retry(call, self._retries, repeats, asked.until)

    async def _find_types(self, asked: ClientCall) -> tuple[ModelTypes, bool]:
        """Return the types of a model, and whether they are known to be current."""
        types = asked.types or self._functions.get(asked.model)
        if types is not None:
            return types, True
        async with self._fetching:  # concurrent calls fetch the metadata once
            if (known := self._known.get(asked.model)) is not None:
                return known, False
            types = self._known[asked.model] = read_types(await self._metadata(asked))
        return types, True

    async def _metadata(self, asked: ClientCall) -> MetadataModelResponse:
        return await self._retry(asked, lambda: self._transport.metadata(asked.model, asked.seconds_left()))

    def _prepare(
        self,
        model: ModelName,
        arguments: Mapping[str, Any],
        timeout: float | None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Scalar] | None = None,
    ) -> ClientCall:
        seconds = self._timeout if timeout is None else timeout
        until = asyncio.get_running_loop().time() + seconds
        known = {**self._headers, **headers} if headers else self._headers
        return ClientCall(model, arguments, parameters or {}, known, seconds, until)


class InProcessClient(AsyncClient):
    """A client for models in the same process. It never retries, because no connection can fail."""

    _over_grpc = False

    def __init__(self, transport: Transport) -> None:
        self._call_over(transport, math.inf, 0, {})


def build_transport(target: Target, over_grpc: bool) -> "RestTransport | GrpcTransport":
    """Return a gRPC or REST transport. Raises MissingExtra if gRPC is required but not installed."""
    # Imported lazily, so that only the library in use is loaded.
    if over_grpc:
        from .grpc import GrpcTransport

        return GrpcTransport(target)
    from .rest import RestTransport

    return RestTransport(target)


def _functions(app: "App | str") -> dict[ModelName, ModelTypes]:
    """Return the types of all functions of an app.

    A name without a version refers to the last function of that name.
    """
    functions: Any = app
    if isinstance(app, str):
        module, _, name = app.partition(":")
        functions = getattr(import_module(module), name or "app")
    types = {}
    for function in functions:
        known = derive_types(function)
        types[ModelName(function.name)] = types[ModelName(function.name, function.version)] = known
    return types
