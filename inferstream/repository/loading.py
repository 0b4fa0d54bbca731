"""Loading and unloading of models."""

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ..compat.finder import install
from ..concurrency.model_thread import ModelThread
from ..concurrency.scope import is_own_cancel
from ..concurrency.threads import Threads, call_apart, run_in_thread
from ..errors import InferstreamError, InvalidSettings, ModelLoadFailed, own_status
from ..functions.model import DescribedModel, resolve_model_class
from ..handlers import get_custom_handlers
from ..imports.folders import importing_alone, loading_for
from ..imports.path.owned_folders import PREFIX
from ..model import MLModel
from ..settings import ModelSettings
from ..telemetry.context import model_context
from ..telemetry.logs import keep_server_log
from ..telemetry.tracebacks import involves_user_code, summarize_error
from .classes import check_constructor, check_methods, check_object, not_a_model
from .trust import check_model

logger = logging.getLogger("inferstream.repository")

METHODS = ("load", "unload", "metadata", "predict", "predict_stream", "admit", "step", "release")
"""Methods that a model may define as `async def`."""

UNLOAD_LIMIT = 5.0
"""The maximum time, in seconds, that `unload` waits for calls that are running in the model's thread."""


class LoadedModel(NamedTuple):
    """A loaded model with its threads."""

    model: MLModel
    thread: ModelThread | None = None
    """The thread of the model's own event loop, constructor, `load` and `unload`.

    None if it uses the server's loop.
    """
    threads: Threads | None = None
    """The only thread for blocking code, including `load`, if the settings limit the model to one thread.

    Otherwise None.
    """

    @property
    def life(self) -> ModelThread | None:
        """The thread for `load` and `unload`, or None for the server's event loop.

        The hooks of an app run on the event loop, because their results are shared by all functions of the
        app.
        """
        return None if isinstance(self.model, DescribedModel) else self.thread

    async def unload(self) -> None:
        """Run the model's `unload` and log its errors. The model is removed in any case."""
        model = self.model
        with model_context(model.name, model.version):
            model.ready = False
            try:
                await self._unload()
            except BaseException as error:  # model code can raise anything
                if is_own_cancel(error):
                    raise
                logger.exception("model %s failed to unload", model.name)
            finally:
                self.close()

    def close(self) -> None:
        """Stop the threads, after their running calls have finished."""
        if self.threads is not None:
            self.threads.close()
        if self.thread is not None:
            self.thread.close()

    async def _unload(self) -> None:
        model, thread = self.model, self.life
        if self.threads is None and (thread is None or not thread.calls):
            await _run(model.unload, thread)
            return
        unloading = asyncio.ensure_future(_run(model.unload, thread, self.threads))
        done, _ = await asyncio.wait([unloading], timeout=UNLOAD_LIMIT)
        if done:
            await unloading
        else:
            unloading.add_done_callback(_ignore)
            logger.error(
                "model %s: a call is still running; no longer waiting to unload the model", model.name
            )


async def load_model(settings: ModelSettings, timeout: float) -> LoadedModel:
    """Import the model's class, construct it and run its `load`, within `timeout` seconds.

    A class with its own event loop is constructed and loaded in the thread of that loop, so objects that are
    bound to a thread or an event loop work. Models load concurrently in threads, but their imports are
    serialized, including imports in `load`.

    Raises ModelLoadFailed with a one-line reason, after calling `unload`. Its `__cause__` is the original
    error, unless that is an error of the server whose message is already the reason.
    """
    with (
        model_context(settings.name, settings.version),
        loading_for(_own_source(settings)),
        importing_alone(),
    ):
        loaded: LoadedModel | None = None
        thread: ModelThread | None = None
        threads = Threads(settings.name, 1) if settings.threads == 1 else None
        try:
            async with asyncio.timeout(timeout):
                # Importing a framework takes seconds. A thread keeps the event loop free for health probes.
                run = run_in_thread if threads is None else threads.load
                implementation = await run(_resolve_class, settings)
                if has_own_loop(implementation, settings):
                    thread = ModelThread(f"model-{settings.name}")
                    if threads is not None:
                        threads.close()
                        threads = Threads(settings.name, 1, thread)
                construct = run if thread is None else thread.call
                model = _provided_model(settings)
                if model is None:
                    check_constructor(implementation, settings)
                    model = await construct(implementation, settings)
                    check_object(model)
                if threads is None and thread is None and settings.threads == 1:  # set by the constructor
                    threads = Threads(settings.name, 1)
                loaded = LoadedModel(model, thread, threads)
                await _call_load(loaded, threads, settings.name)
                check_methods(model)
        except BaseException as error:  # model code can raise anything
            if loaded is not None:
                await loaded.unload()
            else:
                for each in (thread, threads):
                    if each is not None:
                        each.close()
            if is_own_cancel(error) or isinstance(error, ModelLoadFailed):
                raise
            raise _build_load_error(error, settings.name, timeout)  # noqa: B904  # the cause is already set
        loaded.model.ready = True
        keep_server_log()
        if "nest_asyncio" in sys.modules and not isinstance(
            asyncio.get_running_loop(), asyncio.BaseEventLoop
        ):
            logger.warning(
                "model %s: nest_asyncio cannot patch the event loop of uvloop; set event_loop to asyncio",
                settings.name,
            )
        return loaded


def _build_load_error(error: BaseException, model: str, timeout: float) -> ModelLoadFailed:
    """Return the error for a failed load.

    `error` is its cause unless the message already contains everything.
    """
    if isinstance(error, TimeoutError):
        reason, says_all = f" within {timeout:g} s.", True
    elif isinstance(error, InferstreamError):
        reason, says_all = f": {error.message}", not involves_user_code(error)
    else:
        reason, says_all = f": {summarize_error(error)}", False
    failure = ModelLoadFailed(f"Model {model} did not load{reason}", own_status(error))
    failure.__cause__ = None if says_all else error
    return failure


def has_own_loop(kind: type[MLModel], settings: ModelSettings) -> bool:
    """Whether a model has its own event loop: by default if one of its methods is async.

    The setting `loop` overrides this. Functions of an app share the server's loop with the hooks of the app.
    """
    if settings.loop is not None:
        return settings.loop == "own"
    if issubclass(kind, DescribedModel):
        return False
    methods = [
        method
        for name in METHODS
        if (method := getattr(kind, name, None)) is not getattr(MLModel, name, None)
    ]
    return any(map(_is_async, [*methods, *(handler for _, handler in get_custom_handlers(kind))]))


def _is_async(method: Any) -> bool:
    """Whether a method, unwrapped from its decorators, is `async def` or an async generator."""
    method = inspect.unwrap(method)
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _resolve_class(settings: ModelSettings) -> type[MLModel]:
    check_model(settings)
    install()
    implementation = resolve_model_class(settings.implementation, settings.name)
    if implementation is None:
        raise not_a_model(settings)
    return implementation


async def _call_load(loaded: LoadedModel, threads: Threads | None, name: str) -> None:
    """Run the model's `load`. Raises ModelLoadFailed if it returns False.

    `ready` is unset until then, so that a model that returns `self.ready` does not report a failure.
    """
    loaded.model.ready = cast("bool", None)
    if await _run(loaded.model.load, loaded.life, threads) is False:
        raise ModelLoadFailed(f"Model {name} did not load: load() returned False.")


def _own_source(settings: ModelSettings) -> str | None:
    """Return the file whose folder contains the model's code, or None if the program imported the code."""
    provided = settings.provided
    is_own = provided is None or str(provided.__module__).startswith(PREFIX)
    return settings.source if is_own else None


def _provided_model(settings: ModelSettings) -> MLModel | None:
    """Return the model object provided by the program, if any.

    Raises InvalidSettings if it is already being served.
    """
    provided = settings.provided
    if provided is None or isinstance(provided, type):
        return None
    if provided.ready:
        raise InvalidSettings("it is an object of the program that serves already")
    model: MLModel = provided
    return model


async def _run(method: Callable[[], Any], thread: ModelThread | None, threads: Threads | None = None) -> Any:
    """Call `load` or `unload`, which can be sync or async."""
    return await (call_apart(method, threads) if thread is None else thread.call(method))


def _ignore(unloading: asyncio.Future[Any]) -> None:
    """Retrieve the result of an abandoned `unload`, so asyncio does not log that it was never retrieved."""
    if not unloading.cancelled():
        unloading.exception()
