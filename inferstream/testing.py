"""Tests of models: a folder, a class or a model runs in this process, without a port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from .codecs import NumpyCodec, StringCodec
from .codecs.undeclared import encode
from .concurrency.background_loop import BackgroundLoop, background
from .dataplane.call import Operation
from .dataplane.caller import Caller
from .dataplane.reply import Reply
from .server.application import Application
from .server.served import Served
from .settings import Settings
from .types import Headers, InferenceRequest, InferenceResponse, ResponseOutput

Arrays = dict[str, npt.NDArray[Any]]

Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class InProcess:
    """Calls the models of an application through all their stages, without a transport."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def infer(
        self, model: str, request: InferenceRequest | None = None, /, **inputs: Any
    ) -> InferenceResponse:
        """The response to `request`, or to a request with these inputs (see `encode`).

        Raises the error of the model or the server. The cause of an `InferenceFailed` is the model's own exception.
        """
        reply = await self._open(Operation.INFER, model, _one_of(request, inputs))
        assert reply.first is not None
        return reply.first

    async def stream(
        self,
        model: str,
        request: InferenceRequest | None = None,
        more: AsyncIterator[InferenceRequest] | None = None,
        /,
        **inputs: Any,
    ) -> AsyncIterator[InferenceResponse]:
        """Each response to a request, when the model makes it; `more` yields later requests of the same call."""
        opening = self._open(Operation.STREAM, model, _one_of(request, inputs), more)
        async with await opening as reply:
            async for response in reply:
                yield response

    async def _open(
        self,
        operation: Operation,
        model: str,
        request: InferenceRequest,
        more: AsyncIterator[InferenceRequest] | None = None,
    ) -> Reply:
        caller = Caller(Headers(()), "", asyncio.current_task())
        admission = await self.application.dataplane.admit_loaded(model, None, caller)
        return await admission.open(operation, request, more)


class InProcessSync:
    """The same for tests that are no coroutines. The event loop runs while a call waits for its response.

    Where an event loop runs already, as in a notebook, the models' loop is in a thread.
    """

    def __init__(self, runner: asyncio.Runner | BackgroundLoop, client: InProcess) -> None:
        self.application = client.application
        self._runner = runner
        self._client = client

    def infer(
        self, model: str, request: InferenceRequest | None = None, /, **inputs: Any
    ) -> InferenceResponse:
        """The response to one request, as of `InProcess.infer`."""
        return self._runner.run(self._client.infer(model, request, **inputs))

    def stream(
        self, model: str, request: InferenceRequest | None = None, /, **inputs: Any
    ) -> list[InferenceResponse]:
        """All responses to one request, after the last."""

        async def responses() -> list[InferenceResponse]:
            return [response async for response in self._client.stream(model, request, **inputs)]

        return self._runner.run(responses())


class run:  # noqa: N801  # a verb in its use, and a context manager of two kinds
    """Serves a folder, a class of models, a model, or several, until the end of the block.

    `async with` gives an `InProcess`, `with` an `InProcessSync`. `served` and `settings` are those of an
    `Application`. A class has its own name unless a mapping or its settings name it.
    Raises the error of a model that does not load.
    """

    def __init__(self, served: Served = ".", **settings: Any) -> None:
        if isinstance(served, Settings):
            self._application = Application(served.model_copy(update={"strict": True}), **settings)
        else:
            self._application = Application(served, **{"strict": True, **settings})
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


def _one_of(request: InferenceRequest | None, inputs: dict[str, Any]) -> InferenceRequest:
    if request is not None and inputs:
        raise TypeError(f"a whole request was given, so there can be no input {', '.join(inputs)} beside it")
    return request or request_of(inputs)


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
