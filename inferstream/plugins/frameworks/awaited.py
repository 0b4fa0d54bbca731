"""A mixin that makes a runtime a base class for models that were written for MLServer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ClassVar

from inferstream import ModelSettings
from inferstream.ext.runtimes import FrameworkModel
from inferstream.types import InferenceRequest, InferenceResponse


class Awaited(FrameworkModel):
    """A mixin, placed before a runtime class, that makes `predict` async.

    Up to `threads` predictions run concurrently.
    """

    selects_outputs: ClassVar[bool | None] = None
    for_mlserver = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._executor = ThreadPoolExecutor(settings.threads, thread_name_prefix=f"model-{settings.name}")

    async def _await_predict(self, payload: InferenceRequest) -> InferenceResponse:
        run, predict = copy_context().run, super().predict
        result: InferenceResponse = await asyncio.get_running_loop().run_in_executor(
            self._executor, run, predict, payload
        )
        return result

    predict: Any = _await_predict  # Any, because `predict` of the runtime classes is not async.
