"""A replica of the deployment: the whole application in an actor process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from inferstream import Application
from inferstream.errors import InvalidSettings, ModelNotReady
from inferstream.ext.calls import Tasks
from inferstream.ext.http import AsgiScope, Receive, Send
from inferstream.plugins.kubernetes.load import Loads

from .calls import RayRpcs, Sent
from .deployment import Served
from .numbers import Numbers
from .stopping import STOPPING, on_stop

MODELS = "models"
"""The only key of a `user_config`: the names of the models to serve."""

LAST_WORDS = 0.5
"""Seconds to send the last responses before idle connections are closed."""

GOING_AWAY = 1001


class Ingress:
    """The ASGI application.

    It closes WebSockets when the replica stops, because Ray counts even idle ones as running calls.
    """

    def __init__(self, rest: Callable[[AsgiScope, Receive, Send], Awaitable[None]]) -> None:
        self._rest = rest
        self._sockets = Tasks()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._rest(scope, receive, send)
            return
        serving = self._sockets.start(_await(self._rest(scope, receive, send)))
        try:
            await asyncio.wait([serving])
        finally:
            serving.cancel()
        if serving.cancelled():
            await send({"type": "websocket.close", "code": GOING_AWAY})
        else:
            serving.result()

    def end(self) -> None:
        self._sockets.cancel()


class Replica:
    """The deployment class. Ray Serve looks up these methods by name, and RPCs by their path."""

    def __init__(self, served: Served, settings: Mapping[str, Any]) -> None:
        self._application = Application(served, **settings)
        self._ingress = Ingress(self._application.asgi)
        self._rpcs = RayRpcs(self._application.grpc_services())
        self._numbers = Numbers(self._application.meters, self._application.models.of(Loads))

    async def __serve_build_asgi_app__(self) -> Ingress:
        on_stop(self._stop)
        self._numbers.start()
        return self._ingress

    async def check_health(self) -> None:
        """Raise ModelNotReady unless all expected models are ready. Never raises while the replica stops."""
        application = self._application
        if not application.ready and not application.leaving:
            raise ModelNotReady(", ".join(name for name, _ in application.unserved))

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the load of this replica, under the same names as in `/v2/load`."""
        load, _ = self._application.models.of(Loads).recent()
        return {name: float(value) for name, value in load.total._asdict().items()}

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Load the models that a `user_config` lists and unload all others.

        Raises InvalidSettings or ModelNotFound.
        """
        names = user_config.get(MODELS) if isinstance(user_config, Mapping) else None
        if (
            not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
            or len(user_config) > 1
        ):
            raise InvalidSettings(
                f'the user_config of a replica is {{"{MODELS}": [names of models that serve]}}, not {user_config!r}'
            )
        application = self._application
        serving = {name for name, _ in application.loaded}
        for name in sorted(set(names) - serving):
            await application.load(name)
        for name in sorted(serving - set(names)):
            await application.unload(name)

    async def _stop(self, seconds: float) -> None:
        """Serve during the grace period, then cancel the remaining calls before Ray kills the actor.

        Calls are not rejected immediately, because Ray still routes calls to the replica for a while.
        """
        application = self._application
        application.leave()
        grace = min(application.settings.shutdown_grace, seconds - STOPPING)
        await asyncio.sleep(max(grace, 0.0))
        await application.drain(0)
        await asyncio.sleep(LAST_WORDS)
        self._ingress.end()
        self._rpcs.end()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Sent | AsyncIterator[Sent]]]:
        if name.startswith("/"):
            return self._rpcs.find_callable(name)
        raise AttributeError(name)


async def _await(serving: Awaitable[None]) -> None:
    await serving
