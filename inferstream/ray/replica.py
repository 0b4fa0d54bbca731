"""One replica of the deployment: the whole application in the actor's process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from inferstream import Application
from inferstream.ext.calls import Tasks
from inferstream.ext.http import AsgiScope, Receive, Send

from ..dataplane.load import Loads
from ..errors import InvalidSettings, ModelNotReady
from .calls import RayRpcs, Sent
from .deployment import Served
from .numbers import Numbers
from .stopping import STOPPING, on_stop

MODELS = "models"
"""The only key of a `user_config`: names of the models that serve."""

LAST_WORDS = 0.5
"""Seconds for the last events and responses, before connections that no call uses are ended too."""

GOING_AWAY = 1001


class Ingress:
    """The REST application, whose WebSockets end with the replica. Ray waits for an idle one as for a call."""

    def __init__(self, rest: Callable[[AsgiScope, Receive, Send], Awaitable[None]]) -> None:
        self._rest = rest
        self._sockets = Tasks()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._rest(scope, receive, send)
            return
        serving = self._sockets.start(_awaited(self._rest(scope, receive, send)))
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
    """Answers Serve, which finds these methods by name, and an RPC as the attribute of its path."""

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
        """Raises ModelNotReady unless all models that should serve do; never while the replica stops."""
        application = self._application
        if not application.ready and not application.leaving:
            raise ModelNotReady(", ".join(name for name, _ in application.unserved))

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """The load of this replica, by the names of `/v2/load`."""
        load, _ = self._application.models.of(Loads).recent()
        return {name: float(value) for name, value in load.total._asdict().items()}

    async def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Serve the models that a `user_config` names, and no other. Raises InvalidSettings, ModelNotFound."""
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
        """Serve on while Ray sends calls elsewhere and those in progress end, then end the rest before Ray kills.

        Ray still sends calls for a while, which is why they are not refused at once.
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
            return self._rpcs.of(name)
        raise AttributeError(name)


async def _awaited(serving: Awaitable[None]) -> None:
    await serving
