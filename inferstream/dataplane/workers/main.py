"""What a worker process runs."""

import asyncio
import socket
from functools import partial

from ...concurrency.event_loop import new_event_loop
from ...processes.link import Link
from ...processes.membership import belong_to
from ...telemetry.custom import CUSTOM
from ..execution.base import BuildRouteHandler
from .worker import Worker


def main(
    build_route_handler: BuildRouteHandler,
    parent: int,
    end: int,
    lifeline: int,
    incoming: int,
    outgoing: int,
    intake: int | None = None,
) -> None:
    """Serve the process `parent` through descriptors that it has opened, until it says stop or is gone.

    Through `intake` come the ways of further front ends.
    """
    belong_to(parent, end, lifeline, incoming, outgoing, *(() if intake is None else (intake,)))

    async def serve() -> None:
        link = partial(Link, socket.socket(fileno=end))
        worker = CUSTOM.sink = Worker(link, incoming, outgoing, build_route_handler)
        if intake is not None:
            from ...processes.descriptors import Intake  # late: most servers have one front end

            Intake(
                socket.socket(fileno=intake),
                lambda _, end, *memory: worker.admit(partial(Link, end), memory),
            )
        await asyncio.Event().wait()

    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(serve())
