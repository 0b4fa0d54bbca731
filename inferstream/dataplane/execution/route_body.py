"""The streamed body of a custom route, read in the thread that runs the model."""

from collections.abc import Awaitable, Callable
from typing import Any

from ...handlers import ResponseBody
from .responses import cause, translate_error


class RouteBody:
    """A `ResponseBody` of model code. Errors are logged and converted like the errors of calls."""

    def __init__(self, model: str, body: ResponseBody, run: Callable[..., Awaitable[Any]]) -> None:
        """`run` awaits a function in the thread that runs the model."""
        self._model = model
        self._body = body
        self._run = run

    async def read(self) -> bytes:
        try:
            piece: bytes = await self._run(self._body.read)
            return piece
        except BaseException as error:  # Model code may raise anything.
            raise translate_error(error, self._model, None) from cause(error)

    async def aclose(self) -> None:
        await self._run(self._body.aclose)
