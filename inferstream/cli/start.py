"""`server start`: settings, event loop, banner, signals, exit code."""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..allocator import keep_freed_memory
from ..concurrency.event_loop import choose_event_loop, install_event_loop, run_despite_exits
from ..errors import InferstreamError, InvalidSettings
from ..garbage import settle
from ..imports.folders import real_path, share_folders
from ..processes import signals
from ..processes.ending import EXIT_SECONDS, end
from ..repository.remote import RemoteSource
from ..repository.target import targeted
from ..settings import SETTINGS_FILE, Settings
from ..settings.environment import variable
from ..settings.sources import ConflictingSettings, read_json
from ..telemetry.console import configure_console, is_terminal
from ..telemetry.logs import configure_logging, keep_server_log
from ..telemetry.output import wrap_output
from .banner import show
from .flags import Flags
from .progress import Progress

if TYPE_CHECKING:
    from ..repository import ModelRepository
    from ..repository.apps import AppRepository
    from ..repository.files import ArtefactRepository, FileRepository
    from ..server.server import Server

LATE_SECONDS = 0.25
"""Seconds after which an end is never going to happen."""

MOST_FILES = 65_536
"""Upper bound of the soft limit on open files."""

STRUCTURED = "use_structured_logging"
TRUE = ("1", "true", "t", "yes", "y", "on")

logger = logging.getLogger("inferstream.settings")


def run(target: str | Path, flags: Flags, watch: bool, say: "Callable[[Server], None]" = show) -> int:
    """Serve a folder of models or an app; returns the exit code. `say` prints what there is once the server is up.

    The code is 0 after a signal. It is 1 if the server did not start, or if a worker had to be killed.
    """
    structured = _is_structured(flags, str(target))
    signalled = Signalled()
    signals.handle(signalled.handlers())
    if structured:
        wrap_output()
    configure_logging(debug=bool(flags.settings.get("debug")), structured=structured, custom=None)
    configure_console(structured, None)
    try:
        elsewhere = RemoteSource.is_remote(str(target))
        if elsewhere and watch:
            raise InvalidSettings(
                "--reload is for folders; `repository_poll` looks for new versions elsewhere"
            )
        folder, app = (Path(), None) if elsewhere else targeted(str(target))
        if app is not None and ":" in app and flags.model_name is not None:
            raise InvalidSettings("--model-name is for a folder with one model; an app names its own")
        source = str(target) if elsewhere else real_path(folder)
        # Before an app is imported, so that its own configuration of `logging` stays.
        settings = flags.load_settings(source, None if app else False)
        _configure_logging(settings)
        repository = _repository(app, real_path(folder), flags.model_name)
        keep_server_log()
        if repository is not None and flags.start(repository.classic) != flags.start(None):
            access_log = settings.access_log
            settings = flags.load_settings(source, repository.classic)
            settings.access_log = access_log
        settings._reloads = watch
        _warn_of_unread(folder)
        killed = _serve(settings, repository, watch, say, signalled)
    except InferstreamError as error:
        code = 2 if isinstance(error, ConflictingSettings) else 1
        return _end(code, f"error: {error.message}")
    return _end(1 if killed else 0)


def _is_structured(flags: Flags, target: str) -> bool:
    """Whether logs are JSON, which the first line needs, before all settings are read."""
    wanted = flags.settings.get(STRUCTURED)
    path = Path(target)
    with suppress(InferstreamError):
        file = (path if path.is_dir() else path.parent if path.is_file() else Path()) / SETTINGS_FILE
        if wanted is None and file.is_file() and not RemoteSource.is_remote(target):
            wanted = read_json(file).get(STRUCTURED)
    return str(variable(STRUCTURED) if wanted is None else wanted).lower() in TRUE


def _repository(
    path: str | None, folder: Path, model_name: str | None
) -> "AppRepository | ArtefactRepository | FileRepository | None":
    if path is None:
        return None
    from ..repository.files import repository_of_file  # late: folders of models need no apps

    share_folders([folder])
    return repository_of_file(path, folder, model_name)


def _warn_of_unread(folder: Path) -> None:
    """Settings where the command runs do not count for another folder: whoever wrote keys there would get none."""
    read, here = folder / SETTINGS_FILE, Path(SETTINGS_FILE)
    if here.is_file() and not read.exists():
        logger.warning("%s of the working folder is not read; that of this server is %s", here, read)


def _configure_logging(settings: Settings) -> None:
    try:
        configure_logging(settings.debug, settings.use_structured_logging, settings.logging_settings)
    except Exception as error:  # a configuration may name any class, which may raise anything
        cause = error.__cause__ or error
        said = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause)
        reason = " ".join(said.split()) or type(cause).__name__
        raise InvalidSettings(f'settings: field "logging_settings": {reason}') from None
    configure_console(settings.use_structured_logging, settings.logging_settings)
    if settings.access_log is None:
        settings.access_log = is_terminal(sys.stdout)


def _serve(
    settings: Settings,
    repository: "ModelRepository | None",
    watch: bool,
    say: "Callable[[Server], None]",
    signalled: "Signalled",
) -> bool:
    """Serve until a signal; returns whether a process had to be killed at the end."""
    if settings.keep_freed_memory:
        keep_freed_memory()
    # Imported late: `server --help` and a wrong setting need no web framework.
    from ..server.server import Server

    gc.freeze()
    gc.enable()
    _allow_open_files()

    async def main() -> bool:
        server = Server(settings, repository)
        watchdog = Watchdog(server.longest_stop)
        signalled.stop(server.stop, watchdog)
        with Progress(server.backend.registry) as progress:

            def started(server: "Server") -> None:
                settle()
                progress.stop()
                say(server)

            await server.run(started, watch, watchdog.start)
        return server.killed

    choose_event_loop(settings.event_loop)
    loop = install_event_loop()
    signals.run_on(loop)
    return run_despite_exits(loop, main(), SystemExit, KeyboardInterrupt)


class Watchdog:
    """Ends the process with status 1 after `seconds`, from a thread: model code may block the event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.started = False

    def start(self) -> None:
        """Start the timer, unless it runs."""
        if self.started:
            return
        self.started = True
        timer = threading.Timer(self._seconds, os._exit, args=(1,))
        timer.daemon = True
        timer.start()


class Signalled:
    """Ends the process at the first SIGTERM or SIGINT, or calls `stop` once there is a server; the second one ends it.

    It runs between two bytecodes, also while code of an app is imported or blocks the event loop.
    """

    def __init__(self) -> None:
        self._watchdog = Watchdog(EXIT_SECONDS + LATE_SECONDS)
        self._stop: Callable[[], object] = partial(_end, 0)

    def stop(self, stop: Callable[[], None], watchdog: Watchdog) -> None:
        self._stop, self._watchdog = stop, watchdog

    def __call__(self, *_: object) -> None:
        if self._watchdog.started:
            os._exit(130)
        self._watchdog.start()
        self._stop()

    def handlers(self) -> dict[signal.Signals, signals.Handler]:
        """The handlers of a server. SIGHUP has one that does nothing: commands of model code would inherit SIG_IGN."""
        handlers: dict[signal.Signals, signals.Handler] = {signal.SIGTERM: self, signal.SIGINT: self}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # that of `nohup` stays
            handlers[signal.SIGHUP] = lambda *_: None
        return handlers


def _allow_open_files() -> None:
    """Raise the soft limit to the hard one: a connection takes one descriptor, a model's own thread five."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system may allow less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _end(code: int, message: str | None = None) -> NoReturn:
    """End the process: the interpreter would wait for threads that model code blocks."""
    if message is not None:
        print(message, file=sys.stderr)  # noqa: T201  # a command line's last word
    end(code)
