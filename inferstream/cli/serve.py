"""`inferstream.serve`: runs a server in the calling program, blocking or in a background thread."""

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
from ..server.serve_target import Served, resolve
from ..server.server import Server
from .banner import address, show

PORTS = ("http_port", "grpc_port", "metrics_port")


@overload
def serve(served: Served = ".", *, background: Literal[False] = False, **settings: Any) -> None: ...


@overload
def serve(served: Served = ".", *, background: Literal[True], **settings: Any) -> "BackgroundServer": ...


def serve(served: Served = ".", *, background: bool = False, **settings: Any) -> "BackgroundServer | None":
    """Serve a folder, an app, a model class, or one or more models. Blocks until SIGINT or SIGTERM.

    Accepts the same arguments as `Application`. The settings can include the ports: `serve(MyModel,
    http_port=8000)`. When the models are loaded, the addresses are printed to standard error. After the first
    signal, calls in progress finish. The second signal raises KeyboardInterrupt. Outside of the main thread,
    signals are not handled.

    With `background=True`, the server runs in a thread, and the call returns once the models are loaded:
    `with serve(app, background=True) as url`. Free ports are used unless the settings choose them.

    Raises InvalidSettings, including if an event loop is running and `background` is false. In strict mode,
    raises the error of a model that fails to load.
    """
    if not background:
        _refuse_running_loop()
    own, repository = resolve(served, settings)
    if background:
        free = {name: 0 for name in PORTS if name not in own.model_fields_set}
        return BackgroundServer(Server(own.model_copy(update=free), repository))
    server = Server(own, repository)
    with stop_on_signals(server.stop), asyncio.Runner(loop_factory=new_event_loop) as runner:
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
    """A server in a background thread.

    It runs until `stop` is called, its `with` block exits, or the program exits.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = BackgroundLoop("inferstream-server")
        started: Future[Server] = Future()
        self._running = self._loop.start(server.run(started.set_result))
        either: tuple[Future[Any], ...] = (started, self._running)
        atexit.register(self.stop)  # registered after the loop's exit handler, so it runs before it
        try:
            wait(either, return_when=FIRST_COMPLETED)
        except BaseException:  # mainly KeyboardInterrupt
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
        """The address of the gRPC port, in the format that channels accept."""
        return address(self._server, "gRPC", reachable=True)

    def stop(self) -> None:
        """Finish the calls in progress, unload the models and close the ports.

        Raises the error that stopped the server.
        """
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
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first signal, and restore the previous handlers at the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def handle_signal(*_: object) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True
        stop()

    before = {name: signal.signal(name, handle_signal) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
