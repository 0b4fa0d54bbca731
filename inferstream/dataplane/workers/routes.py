"""Custom routes of models in workers: both ends of the link."""

import asyncio
from collections.abc import Awaitable

from ...concurrency.tasks import Tasks
from ...handlers import HttpRequest, HttpResponse, ResponseBody
from ...processes.endpoint import Endpoint
from .frames import CallRoute, LeaveRoute, ReadBody, RouteResponse


async def call_route(endpoint: Endpoint, instance: int, exchange: int, request: HttpRequest) -> HttpResponse:
    """Call a route in a worker, and notify it of a cancellation. Raises WorkerLost, or the model's error."""
    try:
        response = await endpoint.ask(CallRoute(instance, exchange, request))
    except asyncio.CancelledError:
        endpoint.send(LeaveRoute(exchange))
        raise
    rest = _RemoteBody(endpoint, exchange) if response.more else None
    return HttpResponse(response.status, response.headers, response.body, rest)


class _RemoteBody:
    """The rest of a response body in a worker. The worker reads ahead up to the limit of the route."""

    def __init__(self, endpoint: Endpoint, exchange: int) -> None:
        self._endpoint = endpoint
        self._exchange = exchange

    async def read(self) -> bytes:
        return await self._endpoint.ask(ReadBody(self._exchange))

    async def aclose(self) -> None:
        self._endpoint.send(LeaveRoute(self._exchange))


class RouteExchanges:
    """The route requests of one front end, in a worker."""

    def __init__(self) -> None:
        self._tasks: dict[int, asyncio.Task[RouteResponse]] = {}
        """Exchanges whose response is pending."""
        self._bodies: dict[int, ResponseBody] = {}
        self._closing = Tasks()

    def start(self, exchange: int, response: Awaitable[HttpResponse]) -> asyncio.Task[RouteResponse]:
        """Await a response in a task that `leave` cancels."""
        task = self._tasks[exchange] = asyncio.ensure_future(self._run(exchange, response))
        task.add_done_callback(lambda _: self._tasks.pop(exchange))
        return task

    async def _run(self, exchange: int, response: Awaitable[HttpResponse]) -> RouteResponse:
        status, headers, body, rest = await response
        if rest is not None:
            self._bodies[exchange] = rest
        return RouteResponse(status, headers, body, rest is not None)

    async def read(self, frame: ReadBody) -> bytes:
        body = self._bodies.get(frame.exchange)
        return b"" if body is None else await body.read()

    def leave(self, frame: LeaveRoute) -> None:
        if (body := self._bodies.pop(frame.exchange, None)) is not None:
            self._closing.start(body.aclose())
        elif (task := self._tasks.get(frame.exchange)) is not None:
            task.cancel()

    def end(self) -> None:
        """Abandon all exchanges, because the front end has exited."""
        for exchange in [*self._tasks, *self._bodies]:
            self.leave(LeaveRoute(exchange))
