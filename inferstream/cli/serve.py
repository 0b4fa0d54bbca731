"""`inferstream.serve`: a server in the program that calls it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..concurrency.event_loop import new_event_loop
from ..server.served import Served, resolve
from ..server.server import Server
from .banner import show


def serve(served: Served = ".", **settings: Any) -> None:
    """Serve a folder, a class of models, a model or several, until SIGINT or SIGTERM; blocks meanwhile.

    Takes what `Application` takes, and its settings with the ports: `serve(MyModel, http_port=8000)`. The
    addresses are printed to standard error once the models are loaded. The first signal lets calls in
    progress finish; the second raises KeyboardInterrupt. Outside of the main thread no signal is heard.
    Raises InvalidSettings, and in strict mode whatever a model fails with.
    """
    own, repository = resolve(served, settings)
    server = Server(own, repository)
    with _signals(server.stop), asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(server.run(show))


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal; give the program its handlers back afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def signalled(*_: object) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True
        stop()

    before = {name: signal.signal(name, signalled) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
