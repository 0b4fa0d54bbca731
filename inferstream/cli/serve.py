"""`inferstream.serve`: runs a server in the calling program, or in a thread of it."""

import asyncio
import atexit
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any, Literal, overload

from ..concurrency.background_loop import BackgroundLoop
from ..concurrency.event_loop import new_event_loop, run_despite_exits
from ..errors import InvalidSettings
from ..server.served import Served, resolve
from ..server.server import Server
from .banner import address, show

PORTS = ("http_port", "grpc_port", "metrics_port")


@overload
def serve(served: Served = ".", *, background: Literal[False] = False, **settings: Any) -> None: ...


@overload
def serve(served: Served = ".", *, background: Literal[True], **settings: Any) -> "BackgroundServer": ...


def serve(served: Served = ".", *, background: bool = False, **settings: Any) -> "BackgroundServer | None":
    """Serve a folder, an app, a model class, or one or more models. Blocks until SIGINT or SIGTERM.

    The arguments are those of `Application`, and settings may include the ports: `serve(MyModel, http_port=8000)`.
    It prints the addresses to standard error when the models are loaded. After the first signal, calls in progress
    finish. The second signal raises KeyboardInterrupt. Outside of the main thread, it handles no signals.

    With `background`, it returns once the models are loaded, and the server runs in a thread:
    `with serve(app, background=True) as url`. Ports that no settings name are free ones.

    Raises InvalidSettings, without `background` also where an event loop runs, and in strict mode the error of a
    model that does not load.
    """
    if not background:
        _refuse_running_loop()
    own, repository = resolve(served, settings)
    if background:
        free = {name: 0 for name in PORTS if name not in own.model_fields_set}
        return BackgroundServer(Server(own.model_copy(update=free), repository))
    server = Server(own, repository)
    with stopped_by_signals(server.stop), asyncio.Runner(loop_factory=new_event_loop) as runner:
        # A second signal raises KeyboardInterrupt.
        run_despite_exits(runner.get_loop(), server.run(show), SystemExit)
    return None


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidSettings(
        "serve() blocks, and an event loop runs in this thread: serve there with background=True, "
        "await the run() of a Server, or use an Application"
    )


class BackgroundServer:
    """A server in a thread of this program, until `stop`, the end of a `with` block, or of the program."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = BackgroundLoop("inferstream-server")
        started: Future[Server] = Future()
        self._running = self._loop.start(server.run(started.set_result))
        either: tuple[Future[Any], ...] = (started, self._running)
        atexit.register(self.stop)  # after that of the loop's thread, so it comes before it
        try:
            wait(either, return_when=FIRST_COMPLETED)
        except BaseException:  # KeyboardInterrupt above all
            self.stop()
            raise
        if self._running.done():
            self.stop()

    @property
    def url(self) -> str:
        """The address of the REST port."""
        return address(self._server, "REST", reachable=True)

    @property
    def grpc_address(self) -> str:
        """The address of the gRPC port, as channels take it."""
        return address(self._server, "gRPC", reachable=True)

    def stop(self) -> None:
        """Let calls in progress finish, unload the models and close the ports. Raises what the server ended with."""
        atexit.unregister(self.stop)
        self._server.stop()
        try:
            self._running.result()
        finally:
            self._loop.close()

    def __enter__(self) -> str:
        return self.url

    def __exit__(self, *exit: object) -> None:
        self.stop()


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
