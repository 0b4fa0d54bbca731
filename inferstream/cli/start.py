"""`server start`: settings, event loop, banner, signals and exit code."""

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
from ..errors import HINT, InferstreamError, InvalidSettings, describe_failure
from ..garbage import freeze_objects
from ..imports.folders import real_path, share_target
from ..processes import signals
from ..processes.ending import EXIT_SECONDS, end
from ..repository.remote import RemoteSource
from ..repository.target import FoundTarget, find_unserved_app, resolve_target
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
"""The extra time for an orderly exit, in seconds, before the process is killed."""

MAX_FILES = 65_536
"""The upper bound of the soft limit on open files."""

STRUCTURED = "use_structured_logging"
TRUE = ("1", "true", "t", "yes", "y", "on")
FALSE = ("0", "false", "f", "no", "n", "off")

logger = logging.getLogger("inferstream.settings")


def run(target: str | Path, flags: Flags, watch: bool, say: "Callable[[Server], None]" = show) -> int:
    """Serve a folder of models or an app, and return the exit code. `say` prints the banner after startup.

    The exit code is 0 after a signal, 1 if the server did not start or if a process had to be killed, and 2
    for conflicting settings.
    """
    structured = _logs_json(flags, str(target))
    signalled = Signalled()
    signals.handle(signalled.handlers())
    if structured:
        wrap_output()
    configure_logging("DEBUG" if flags.settings.get("debug") else "INFO", structured, custom=None)
    configure_console(structured, None)
    try:
        elsewhere = RemoteSource.is_remote(str(target))
        if elsewhere and watch:
            raise InvalidSettings(
                "--reload is for folders; `repository_poll` looks for new versions elsewhere"
            )
        folder, app = (Path(), None) if elsewhere else _resolve(str(target))
        if app is not None and ":" in app and flags.model_name is not None:
            raise InvalidSettings("--model-name is for a folder with one model; an app names its own")
        source = str(target) if elsewhere else real_path(folder)
        # Load settings before an app is imported, so that the app's own `logging` configuration is kept.
        settings = flags.load_settings(source, None if app else False)
        if app is not None:
            resolve_target(str(target))  # again, because the settings may forbid an app
        _configure_logging(settings)
        repository = _repository(app, real_path(folder), flags.model_name)
        keep_server_log()
        if repository is not None and flags.start(repository.classic) != flags.start(None):
            access_log = settings.access_log
            settings = flags.load_settings(source, repository.classic)
            settings.access_log = access_log
        settings._reloads = watch
        if not elsewhere:
            _warn_of_unread(folder, app)
        killed = _serve(settings, repository, watch, say, signalled)
    except InferstreamError as error:
        code = 2 if isinstance(error, ConflictingSettings) else 1
        return _end(code, f"error: {error.message}" if structured else describe_failure(error.message))
    return _end(1 if killed else 0)


def _resolve(target: str) -> FoundTarget:
    """Resolve the target, or accept a missing folder if models only load through the repository API.

    The agent of Seldon Core creates the folder from another container.
    """
    folder = Path(target)
    loads_none = (variable("load_models_at_startup") or "").lower() in FALSE
    if not loads_none or folder.exists() or folder.suffix or ":" in target:
        return resolve_target(target)
    logger.warning("%s does not exist yet; models in it can be loaded when it does", folder)
    return FoundTarget(folder, None)


def _logs_json(flags: Flags, target: str) -> bool:
    """Whether logs are JSON. The first log line needs this before all settings are loaded."""
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
    from ..repository.files import repository_of_file  # imported lazily: folders of models do not need it

    share_target(folder, path)
    return repository_of_file(path, folder, model_name)


def _warn_of_unread(folder: Path, app: str | None) -> None:
    """Warn about an app next to models, and about a settings file in the working directory.

    The settings may contain keys, and the server would not require them.
    """
    if app is None and (file := find_unserved_app(folder)) is not None:
        logger.warning("%s is not served, because its folder has models%sserver start %s", file, HINT, file)
    read, here = folder / SETTINGS_FILE, Path(SETTINGS_FILE)
    if here.is_file() and not read.exists():
        logger.warning("%s of the working folder is not read; that of this server is %s", here, read)


def _configure_logging(settings: Settings) -> None:
    try:
        configure_logging(
            settings.lowest_log_level, settings.use_structured_logging, settings.logging_settings
        )
    except Exception as error:  # a configuration can refer to any class, which can raise anything
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
    """Serve until a signal arrives. Returns whether a process had to be killed at the end."""
    if settings.keep_freed_memory:
        keep_freed_memory()
    # Imported lazily: `server --help` and invalid settings do not need a web framework.
    from ..server.server import Server

    gc.freeze()
    gc.enable()
    _raise_open_file_limit()

    async def main() -> bool:
        server = Server(settings, repository)
        watchdog = Watchdog(server.longest_stop)
        signalled.set_stop(server.stop, watchdog)
        with Progress(server.backend.registry) as progress:

            def show_banner(server: "Server") -> None:
                freeze_objects()
                progress.stop()
                say(server)

            await server.run(show_banner, watch, watchdog.start)
        return server.killed

    choose_event_loop(settings.event_loop)
    loop = install_event_loop()
    signals.run_on(loop)
    return run_despite_exits(loop, main(), SystemExit, KeyboardInterrupt)


class Watchdog:
    """Exits the process with code 1 after `seconds`.

    It uses a thread, because model code may block the loop.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.started = False

    def start(self) -> None:
        """Start the timer, unless it is already running."""
        if self.started:
            return
        self.started = True
        timer = threading.Timer(self._seconds, os._exit, args=(1,))
        timer.daemon = True
        timer.start()


class Signalled:
    """A signal handler that stops the server on the first SIGTERM or SIGINT, and exits on the second.

    Before the server exists, the first signal exits. The handler runs between two bytecodes, even while an
    app is being imported or blocks the event loop.
    """

    def __init__(self) -> None:
        self._watchdog = Watchdog(EXIT_SECONDS + LATE_SECONDS)
        self._stop: Callable[[], object] = partial(_end, 0)

    def set_stop(self, stop: Callable[[], None], watchdog: Watchdog) -> None:
        self._stop, self._watchdog = stop, watchdog

    def __call__(self, *_: object) -> None:
        if self._watchdog.started:
            os._exit(130)
        self._watchdog.start()
        self._stop()

    def handlers(self) -> dict[signal.Signals, signals.Handler]:
        """Return the signal handlers of a server.

        SIGHUP has an empty handler instead of SIG_IGN, which subprocesses of model code would inherit.
        """
        handlers: dict[signal.Signals, signals.Handler] = {signal.SIGTERM: self, signal.SIGINT: self}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` has set it
            handlers[signal.SIGHUP] = lambda *_: None
        return handlers


def _raise_open_file_limit() -> None:
    """Raise the soft limit on open files.

    A connection needs one descriptor, and a model's own thread needs five.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # the system may allow less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _end(code: int, message: str | None = None) -> NoReturn:
    """Exit without waiting for threads, because model code may block them."""
    if message is not None:
        print(message, file=sys.stderr)  # noqa: T201  # a command line's last word
    end(code)
