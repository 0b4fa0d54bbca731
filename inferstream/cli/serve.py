"""`inferstream.serve`: runs a server in the calling program."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..concurrency.event_loop import new_event_loop
from ..errors import InvalidSettings
from ..server.served import Served, resolve
from ..server.server import Server
from .banner import show


def serve(served: Served = ".", **settings: Any) -> None:
    """Serve a folder, a model class, or one or more models. Blocks until SIGINT or SIGTERM.

    The arguments are those of `Application`, and settings may include the ports: `serve(MyModel, http_port=8000)`.
    It prints the addresses to standard error when the models are loaded. After the first signal, calls in progress
    finish. The second signal raises KeyboardInterrupt. Outside of the main thread, it handles no signals.
    Raises InvalidSettings, also where an event loop runs, and in strict mode the error of a model that does not load.
    """
    _refuse_running_loop()
    own, repository = resolve(served, settings)
    server = Server(own, repository)
    with stopped_by_signals(server.stop), asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(server.run(show))


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidSettings(
        "serve() blocks, and an event loop runs in this thread: await the run() of a Server there, "
        "or use an Application"
    )


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first signal. Restore the program's handlers at the end."""
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
