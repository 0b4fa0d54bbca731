"""The streamed body of a custom route, read from the thread that runs the model."""

from collections.abc import Awaitable, Callable
from typing import Any

from ...handlers import ResponseBody
from .responses import cause, translated


class RouteBody:
    """A `ResponseBody` of model code, whose failures are logged and translated as those of calls are."""

    def __init__(self, model: str, body: ResponseBody, run: Callable[..., Awaitable[Any]]) -> None:
        """`run` awaits a function where the model runs."""
        self._model = model
        self._body = body
        self._run = run

    async def read(self) -> bytes:
        try:
            piece: bytes = await self._run(self._body.read)
            return piece
        except BaseException as error:  # model code may raise anything
            raise translated(error, self._model, None) from cause(error)

    async def aclose(self) -> None:
        await self._run(self._body.aclose)
