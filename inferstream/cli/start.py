"""`server start`: settings, event loop, banner, exit code."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..concurrency.event_loop import new_event_loop
from ..errors import InferstreamError, InvalidSettings
from ..garbage import settle
from ..settings import Settings, load_settings
from ..telemetry.logs import configure_logging
from .banner import show
from .ending import Watchdog, listen_to_signals

if TYPE_CHECKING:
    from ..server.server import Server

MOST_FILES = 65_536
"""Open files to ask for at most."""


def run(
    folder: Path, flags: Mapping[str, Any], watch: bool, say: "Callable[[Server], None] | None" = None
) -> int:
    """Serve `folder`; returns the exit code. `say` prints more once the server is up.

    The code is 0 after a signal, and 1 for whatever kept the server from starting, or a worker from ending.
    """
    configure_logging(debug=bool(flags.get("debug")), structured=False, custom=None)
    try:
        if not folder.is_dir():
            raise InvalidSettings(f"{folder} is not a folder")
        settings = load_settings(folder.resolve(), flags)
        _configure_logging(settings)
        killed = _serve(settings, watch, say)
    except InferstreamError as error:
        return _end(1, f"error: {error.message}")
    return _end(1 if killed else 0)


def _configure_logging(settings: Settings) -> None:
    try:
        configure_logging(settings.debug, settings.use_structured_logging, settings.logging_settings)
    except Exception as error:  # a configuration may name any class, which may raise anything
        cause = error.__cause__ or error
        said = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause)
        reason = " ".join(said.split()) or type(cause).__name__
        raise InvalidSettings(f'settings: field "logging_settings": {reason}') from None


def _serve(settings: Settings, watch: bool, say: "Callable[[Server], None] | None") -> bool:
    """Serve until a signal; whether a process had to be killed at the end."""
    # Imported late: `server --help` and a wrong setting need no web framework.
    from ..server.server import Server

    gc.freeze()
    gc.enable()
    _allow_open_files()

    def started(server: "Server") -> None:
        settle()
        show(server)
        if say is not None:
            say(server)

    async def main() -> bool:
        server = Server(settings)
        watchdog = Watchdog(server.longest_stop)
        listen_to_signals(server.stop, watchdog)
        await server.run(started, watch, watchdog.start)
        return server.killed

    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(main())


def _allow_open_files() -> None:
    """Raise the soft limit to the hard one: a connection takes one descriptor, a model's own thread five."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _end(code: int, message: str | None = None) -> int:
    """Leave the process now: the interpreter would otherwise wait for threads stuck in model code."""
    if message is not None:
        print(message, file=sys.stderr)  # noqa: T201  # a command line's last word
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
