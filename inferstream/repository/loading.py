"""Loads and unloads models."""

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ..compat.finder import install
from ..concurrency.model_thread import ModelThread
from ..concurrency.scope import is_own_cancel
from ..concurrency.threads import Threads, call_apart, in_thread
from ..errors import InferstreamError, InvalidSettings, ModelLoadFailed, own_status
from ..functions.model import DescribedModel, implementation_of
from ..handlers import get_custom_handlers
from ..imports.folders import importing_alone, loading_for
from ..imports.path.owned_folders import PREFIX
from ..model import MLModel
from ..settings import ModelSettings
from ..telemetry.context import model_context
from ..telemetry.logs import keep_server_log
from ..telemetry.tracebacks import one_line, passed_own_code
from .classes import check_constructor, check_methods, check_object

logger = logging.getLogger("inferstream.repository")

METHODS = ("load", "unload", "metadata", "predict", "predict_stream", "admit", "step", "release")
"""Methods of a model's author, which the server awaits where they are `async def`."""

UNLOAD_LIMIT = 5.0
"""Seconds that `unload` may wait for a call that still runs in the model's thread."""


class LoadedModel(NamedTuple):
    """A loaded model and the thread of its own event loop."""

    model: MLModel
    thread: ModelThread | None = None
    """Runs its coroutines, its constructor, `load` and `unload`; None where the server's event loop does."""
    threads: Threads | None = None
    """Runs all that blocks, `load` included, of a model whose settings allow one thread; else None."""

    @property
    def life(self) -> ModelThread | None:
        """The thread for `load` and `unload`; None for the event loop.

        The hooks of an app run on the event loop: what they make serves all of its functions.
        """
        return None if isinstance(self.model, DescribedModel) else self.thread

    async def unload(self) -> None:
        """Run the model's `unload` and log its errors. The model is removed in any case."""
        model = self.model
        with model_context(model.name, model.version):
            model.ready = False
            try:
                await self._unload()
            except BaseException as error:  # model code may raise anything
                if is_own_cancel(error):
                    raise
                logger.exception("model %s failed to unload", model.name)
            finally:
                self.close()

    def close(self) -> None:
        """End the threads after the calls that run in them."""
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
            logger.error("model %s still runs a call; no longer waiting to unload it", model.name)


async def load_model(settings: ModelSettings, timeout: float) -> LoadedModel:
    """Import the model's class, construct it and run its `load`, within `timeout` seconds.

    A class with an event loop of its own is constructed and loaded in the thread of that loop, so that objects bound to
    a thread or an event loop work there.
    Models load in parallel threads, and their imports take turns, including those of `load`.
    Raises ModelLoadFailed with the reason in one line, after `unload`. Its cause is the original error, unless that is
    one of the server's own, of which the reason says all.
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
                # Imports of frameworks take seconds. In a thread, they do not delay the health probes.
                run = in_thread if threads is None else threads.load
                implementation = await run(_class_of, settings)
                if has_own_loop(implementation, settings):
                    thread = ModelThread(f"model-{settings.name}")
                    if threads is not None:
                        threads.close()
                        threads = Threads(settings.name, 1, thread)
                construct = run if thread is None else thread.call
                model = _object_of(settings)
                if model is None:
                    check_constructor(implementation, settings)
                    model = await construct(implementation, settings)
                    check_object(model)
                if threads is None and thread is None and settings.threads == 1:  # the constructor's choice
                    threads = Threads(settings.name, 1)
                loaded = LoadedModel(model, thread, threads)
                if await _run(model.load, loaded.life, threads) is False:
                    raise ModelLoadFailed(f"Model {settings.name} did not load: load() returned False.")
                check_methods(model)
        except BaseException as error:  # model code may raise anything
            if loaded is not None:
                await loaded.unload()
            else:
                for each in (thread, threads):
                    if each is not None:
                        each.close()
            if is_own_cancel(error) or isinstance(error, ModelLoadFailed):
                raise
            raise _load_failed(error, settings.name, timeout)  # noqa: B904  # it has its cause
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


def _load_failed(error: BaseException, model: str, timeout: float) -> ModelLoadFailed:
    """The failure of a load that ended with `error`, which is its cause unless the reason says all."""
    if isinstance(error, TimeoutError):
        reason, says_all = f" within {timeout:g} s.", True
    elif isinstance(error, InferstreamError):
        reason, says_all = f": {error.message}", not passed_own_code(error)
    else:
        reason, says_all = f": {one_line(error)}", False
    failure = ModelLoadFailed(f"Model {model} did not load{reason}", own_status(error))
    failure.__cause__ = None if says_all else error
    return failure


def has_own_loop(kind: type[MLModel], settings: ModelSettings) -> bool:
    """Whether the coroutines of a model run in an event loop of its own: those of every class, unless its settings say.

    Functions of an app share the server's loop with the hooks of their app.
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
    """Whether a method, under its decorators, is `async def` or an async generator."""
    method = inspect.unwrap(method)
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _class_of(settings: ModelSettings) -> type[MLModel]:
    install()
    implementation = implementation_of(settings.implementation, settings.name)
    if implementation is None:
        raise InvalidSettings(f'implementation "{settings.implementation_}" is not a subclass of MLModel')
    return implementation


def _own_source(settings: ModelSettings) -> str | None:
    """The file whose folder has the model's code; None if the program that serves it has imported the code itself."""
    provided = settings.provided
    is_own = provided is None or str(provided.__module__).startswith(PREFIX)
    return settings.source if is_own else None


def _object_of(settings: ModelSettings) -> MLModel | None:
    """The model object that the program provides. Raises InvalidSettings if it serves already."""
    provided = settings.provided
    if provided is None or isinstance(provided, type):
        return None
    if provided.ready:
        raise InvalidSettings("it is an object of the program that serves already")
    model: MLModel = provided
    return model


async def _run(method: Callable[[], Any], thread: ModelThread | None, threads: Threads | None = None) -> Any:
    """Call `load` or `unload`, which may be sync or async."""
    return await (call_apart(method, threads) if thread is None else thread.call(method))


def _ignore(unloading: asyncio.Future[Any]) -> None:
    """Read the result of an abandoned `unload`. Otherwise asyncio logs its error as never retrieved."""
    if not unloading.cancelled():
        unloading.exception()
