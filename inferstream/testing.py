"""Test support: runs a folder of models, an app, a class or a model in this process, without a port."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from .clients.transport import ModelName, OutgoingCall
from .codecs import NumpyCodec, StringCodec
from .codecs.undeclared_tensors import encode
from .concurrency.background_loop import BackgroundLoop, background
from .functions.injection import Overrides
from .server.application import Application
from .server.serve_target import Served
from .settings import Settings
from .types import InferenceRequest, InferenceResponse, ResponseOutput

Arrays = dict[str, npt.NDArray[Any]]

P = ParamSpec("P")
T = TypeVar("T")

Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class InProcess:
    """A client for the models of an application, which runs the full pipeline without a transport.

    `predict` and `predict_stream` return Python values, like `Application.predict` and `Application.stream`.
    `infer` and `stream` return V2 responses. `headers` stand for HTTP headers or gRPC metadata.
    """

    def __init__(self, application: Application) -> None:
        self.application = application
        self.predict = application.predict
        self.predict_stream = application.stream

    async def infer(
        self,
        model: str,
        request: InferenceRequest | None = None,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        **inputs: Any,
    ) -> InferenceResponse:
        """Return the response to `request`, or to a request with these inputs (see `encode`).

        Raises the error of the model or the server. The `__cause__` of an `InferenceFailed` is the exception
        that the model raised. If the model runs in a worker process, it is an exception with its text.
        """
        return await self.application.calls.infer(_call(model, request, inputs, headers))

    def stream(
        self,
        model: str,
        request: InferenceRequest | None = None,
        more: AsyncIterator[InferenceRequest] | None = None,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        **inputs: Any,
    ) -> AsyncGenerator[InferenceResponse, None]:
        """Yield each response as soon as the model produces it.

        `more` yields the later requests of the same call.
        """
        return self.application.calls.stream(_call(model, request, inputs, headers, more))


class InProcessSync:
    """The synchronous version of `InProcess`. The event loop runs only while a call waits for its response.

    If an event loop is already running, for example in a notebook, the models run on a loop in another
    thread.
    """

    def __init__(self, runner: asyncio.Runner | BackgroundLoop, client: InProcess) -> None:
        self.application = client.application
        self._runner = runner
        self._client = client

    def predict(self, model: str, /, *arguments: Any, **named: Any) -> Any:
        """Return the value of one call. See `Application.predict`."""
        return self._runner.run(self._client.predict(model, *arguments, **named))

    def predict_stream(self, model: str, /, *arguments: Any, **named: Any) -> list[Any]:
        """Return all items of a stream as a list. See `Application.stream`."""
        return self._runner.run(_collect(self._client.predict_stream, model, *arguments, **named))

    def infer(
        self,
        model: str,
        request: InferenceRequest | None = None,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        **inputs: Any,
    ) -> InferenceResponse:
        """Return the response to one request. See `InProcess.infer`."""
        return self._runner.run(self._client.infer(model, request, headers=headers, **inputs))

    def stream(
        self,
        model: str,
        request: InferenceRequest | None = None,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        **inputs: Any,
    ) -> list[InferenceResponse]:
        """Return all responses to one request as a list."""
        return self._runner.run(_collect(self._client.stream, model, request, headers=headers, **inputs))


async def _collect(
    begin: Callable[P, AsyncGenerator[T, None]], *arguments: P.args, **named: P.kwargs
) -> list[T]:
    return [item async for item in begin(*arguments, **named)]


class run:  # noqa: N801  # used like a verb; both a sync and an async context manager
    """Runs a folder of models, an app, a model class, a model or several, until the end of the block.

    `async with` returns an `InProcess`, and `with` an `InProcessSync`. `served` and `settings` are the
    arguments of `Application`. A model class is served under its class name unless a mapping or its settings
    name it.

    Raises the error of a model that fails to load.
    """

    def __init__(self, served: Served = ".", *, overrides: Overrides | None = None, **settings: Any) -> None:
        """`overrides` maps each dependency (`Depends`) to the function that replaces it."""
        if isinstance(served, Settings):
            served = served.model_copy(update={"strict": True})
        else:
            settings = {"strict": True, **settings}
        self._application = Application(served, overrides=overrides, **settings)
        self._left = ExitStack()
        self._runner: asyncio.Runner | BackgroundLoop = background

    async def __aenter__(self) -> InProcess:
        await self._application.start()
        return InProcess(self._application)

    async def __aexit__(self, *exit: *Exit) -> None:
        await self._application.stop()

    def __enter__(self) -> InProcessSync:
        with ExitStack() as failed:
            if not _is_loop_running():
                self._runner = failed.enter_context(asyncio.Runner())
            client = InProcessSync(self._runner, self._runner.run(self.__aenter__()))
            self._left = failed.pop_all()
        return client

    def __exit__(self, *exit: *Exit) -> None:
        with self._left:
            self._runner.run(self._application.stop())


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _call(
    model: str,
    request: InferenceRequest | None,
    inputs: dict[str, Any],
    headers: Mapping[str, str] | None,
    more: AsyncIterator[InferenceRequest] | None = None,
) -> OutgoingCall:
    if request is not None and inputs:
        raise TypeError(f"a whole request was given, so there can be no input {', '.join(inputs)} beside it")
    return OutgoingCall(ModelName(model), request or build_request(inputs), headers or {}, more=more)


def build_request(inputs: dict[str, Any]) -> InferenceRequest:
    return InferenceRequest(inputs=[encode(name, value) for name, value in inputs.items()])


def arrays(response: InferenceResponse) -> Arrays:
    """Return the outputs of a response as arrays, by name.

    Elements of BYTES outputs are `bytes`, or `str` if the content type is `str`.
    """
    return {output.name: _array(output) for output in response.outputs}


def _array(output: ResponseOutput) -> npt.NDArray[Any]:
    parameters = output.parameters
    if parameters is not None and parameters.content_type == StringCodec.ContentType:
        return np.array(StringCodec.decode_output(output), dtype=object).reshape(output.shape)
    return NumpyCodec.decode_output(output)
