"""Tests of models: a folder, a class or a model runs in this process, without a port."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from .clients.transport import ModelName, OutgoingCall
from .codecs import NumpyCodec, StringCodec
from .codecs.undeclared import encode
from .concurrency.background_loop import BackgroundLoop, background
from .functions.injection import Overrides
from .server.application import Application
from .server.served import Served
from .settings import Settings
from .types import InferenceRequest, InferenceResponse, ResponseOutput

Arrays = dict[str, npt.NDArray[Any]]

P = ParamSpec("P")
T = TypeVar("T")

Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class InProcess:
    """Calls the models of an application through all their stages, without a transport.

    `predict` and `predict_stream` give values, as `Application.predict` and `Application.stream` do; `infer` and
    `stream` give responses. `headers` are those of an HTTP request, or metadata of an RPC.
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
        """The response to `request`, or to a request with these inputs (see `encode`).

        Raises the error of the model or the server. The cause of an `InferenceFailed` is the model's own exception.
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
        """Each response to a request, when the model makes it; `more` yields later requests of the same call."""
        return self.application.calls.stream(_call(model, request, inputs, headers, more))


class InProcessSync:
    """The same for tests that are no coroutines. The event loop runs while a call waits for its response.

    Where an event loop runs already, as in a notebook, the models' loop is in a thread.
    """

    def __init__(self, runner: asyncio.Runner | BackgroundLoop, client: InProcess) -> None:
        self.application = client.application
        self._runner = runner
        self._client = client

    def predict(self, model: str, /, *arguments: Any, **named: Any) -> Any:
        """The value of one call, as of `Application.predict`."""
        return self._runner.run(self._client.predict(model, *arguments, **named))

    def predict_stream(self, model: str, /, *arguments: Any, **named: Any) -> list[Any]:
        """All items of a stream, after the last, as of `Application.stream`."""
        return self._runner.run(_all_of(self._client.predict_stream, model, *arguments, **named))

    def infer(
        self, model: str, request: InferenceRequest | None = None, /, **inputs: Any
    ) -> InferenceResponse:
        """The response to one request, as of `InProcess.infer`."""
        return self._runner.run(self._client.infer(model, request, **inputs))

    def stream(
        self, model: str, request: InferenceRequest | None = None, /, **inputs: Any
    ) -> list[InferenceResponse]:
        """All responses to one request, after the last."""
        return self._runner.run(_all_of(self._client.stream, model, request, **inputs))


async def _all_of(
    begin: Callable[P, AsyncGenerator[T, None]], *arguments: P.args, **named: P.kwargs
) -> list[T]:
    return [item async for item in begin(*arguments, **named)]


class run:  # noqa: N801  # a verb in its use, and a context manager of two kinds
    """Serves a folder, a class of models, a model, or several, until the end of the block.

    `async with` gives an `InProcess`, `with` an `InProcessSync`. `served` and `settings` are those of an
    `Application`. A class has its own name unless a mapping or its settings name it.
    Raises the error of a model that does not load.
    """

    def __init__(self, served: Served = ".", *, overrides: Overrides | None = None, **settings: Any) -> None:
        """`overrides` are functions by the dependency (`Depends`) that they replace."""
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
            if not _loop_runs():
                self._runner = failed.enter_context(asyncio.Runner())
            client = InProcessSync(self._runner, self._runner.run(self.__aenter__()))
            self._left = failed.pop_all()
        return client

    def __exit__(self, *exit: *Exit) -> None:
        with self._left:
            self._runner.run(self._application.stop())


def _loop_runs() -> bool:
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
    return OutgoingCall(ModelName(model), request or request_of(inputs), headers or {}, more=more)


def request_of(inputs: dict[str, Any]) -> InferenceRequest:
    return InferenceRequest(inputs=[encode(name, value) for name, value in inputs.items()])


def arrays(response: InferenceResponse) -> Arrays:
    """The outputs of a response as arrays, by name. BYTES are `bytes`, or texts if their content type is `str`."""
    return {output.name: _array(output) for output in response.outputs}


def _array(output: ResponseOutput) -> npt.NDArray[Any]:
    parameters = output.parameters
    if parameters is not None and parameters.content_type == StringCodec.ContentType:
        return np.array(StringCodec.decode_output(output), dtype=object).reshape(output.shape)
    return NumpyCodec.decode_output(output)
