"""Responses of a model, as dialects get them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

from inferstream import InferenceRequest, InferenceResponse, MLModel, ModelSettings
from inferstream.ext.calls import Caller, Operation
from inferstream.testing import run
from inferstream.types import Headers


class Items(MLModel):
    """Streams the same items for each request."""

    items: tuple[Any, ...] = ()

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for _ in payloads:
            for item in self.items:
                yield item


class ItemServer:
    """Makes the responses of items, within a `with` block: to start a server for each call takes 10 ms."""

    def __enter__(self) -> None:
        self._model = Items(ModelSettings(name="m", implementation=Items))
        served = run(self._model)
        self._left = ExitStack()
        self._runner = self._left.enter_context(asyncio.Runner())
        self._models = self._runner.run(served.__aenter__()).application.models
        self._left.callback(lambda: self._runner.run(served.__aexit__(None, None, None)))

    def __exit__(self, *_: object) -> None:
        self._left.close()

    def __call__(self, *items: object) -> list[InferenceResponse]:
        """The responses of a model that yields these items. Raises InvalidOutput."""
        self._model.items = items
        # Not the result of the coroutine: the runner makes its repr, which makes tensors of plain values.
        responses: list[InferenceResponse] = []
        self._runner.run(self._read(responses))
        return responses

    async def _read(self, responses: list[InferenceResponse]) -> None:
        admission = self._models.admit("m", None, Caller(Headers([]), "test"))
        async with await admission.open(Operation.STREAM, InferenceRequest(inputs=[])) as reply:
            async for response in reply:
                responses.append(response)


responses_of = ItemServer()
"""Works in each test of this folder."""
