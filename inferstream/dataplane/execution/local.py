"""Runs a model in this process: async code on the loop, blocking code in threads."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from ...errors import Unsupported
from ...model import MLModel
from ...telemetry.context import model_name_var, model_version_var
from ...types import InferenceRequest, InferenceResponse
from ..call import Call, Operation
from ..checks import Declaration, finish
from ..reply import Reply
from .failures import translated
from .payloads import Payloads
from .responses import ModelResponses, open_reply
from .threads import ThreadedResponses


class Local:
    """The innermost handler: the model's own code, called as its author wrote it."""

    def __init__(self, model: MLModel, declaration: Declaration, executor: Executor) -> None:
        self._model = model
        self._name = model.name
        self._version = model.version
        self._declaration = declaration
        self._executor = executor
        predicts = type(model).predict is not MLModel.predict
        self._streams = type(model).predict_stream is not MLModel.predict_stream
        self._stream_only = self._streams and not predicts
        self._predict_blocks = predicts and not _is_async(model.predict)
        self._stream_blocks = self._streams and inspect.isgeneratorfunction(
            inspect.unwrap(model.predict_stream)
        )

    @property
    def answers(self) -> str:
        """What the model's author wrote: `predict`, `stream`, or both."""
        return "stream" if self._stream_only else "predict, stream" if self._streams else "predict"

    @property
    def blocks(self) -> bool:
        """Whether any of the model's code occupies a thread."""
        return self._predict_blocks or self._stream_blocks

    def __call__(self, call: Call) -> Awaitable[Reply]:
        model_name_var.set(self._name)
        model_version_var.set(self._version or "")
        if call.operation is Operation.INFER:
            return self._only_response(call) if self._stream_only else self._predict(call.request)
        start = partial(
            self._start if self._streams else self._predict_each, Payloads(call, self._declaration)
        )
        return open_reply(ModelResponses(start, call, self._version))

    async def _predict(self, request: InferenceRequest) -> Reply:
        try:
            if self._predict_blocks:
                response = await self._in_thread(self._model.predict, request)
            else:
                response = await self._model.predict(request)
            return Reply(finish(response, request, self._name, self._version))
        except BaseException as error:
            raise translated(error, self._name, request.id) from error

    async def _in_thread(self, predict: Callable[[InferenceRequest], Any], request: InferenceRequest) -> Any:
        loop = asyncio.get_running_loop()
        response = await loop.run_in_executor(self._executor, copy_context().run, _call, predict, request)
        return await response if inspect.isawaitable(response) else response

    async def _only_response(self, call: Call) -> Reply:
        """A single answer from a model that only streams, if one response is all it makes."""
        start = partial(self._start, Payloads(call, self._declaration))
        async with await open_reply(ModelResponses(start, call, self._version)) as reply:
            responses = 0
            async for _ in reply:
                responses += 1
                if responses > 1:
                    break
            if reply.first is None or responses > 1:
                many = "more than one response" if responses else "no response"
                raise Unsupported(f"Model {self._name} answered {many}; call it as a stream.")
            return Reply(reply.first)

    async def _start(self, payloads: Payloads) -> AsyncIterator[InferenceResponse]:
        """Call the model's `predict_stream`, however it is written, and return what iterates over its responses."""
        predict_stream = cast(Any, self._model.predict_stream)
        if self._stream_blocks:
            return ThreadedResponses(self._executor, partial(predict_stream, payloads))
        stream = predict_stream(payloads)
        if inspect.isawaitable(stream):
            stream = await stream
        if hasattr(stream, "__aiter__"):
            return cast(AsyncIterator[InferenceResponse], aiter(stream))
        if isinstance(stream, Iterable):
            return ThreadedResponses(self._executor, lambda: cast(Iterable[InferenceResponse], stream))
        raise TypeError(f"predict_stream returned a {type(stream).__name__}, which cannot be iterated")

    async def _predict_each(self, payloads: Payloads) -> AsyncIterator[InferenceResponse]:
        """The stream of a model that only knows `predict`: one response for each request."""

        async def responses() -> AsyncIterator[InferenceResponse]:
            async for request in payloads:
                response = (await self._predict(request)).first
                assert response is not None
                yield response

        return responses()


def _call(predict: Callable[[InferenceRequest], Any], request: InferenceRequest) -> Any:
    try:
        return predict(request)
    except StopIteration as error:
        # A future cannot hold a StopIteration: without this its caller would wait for ever.
        raise RuntimeError("predict raised StopIteration") from error


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))
