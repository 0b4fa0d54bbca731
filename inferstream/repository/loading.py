"""Loads and unloads models."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ..compat.finder import install
from ..concurrency.model_thread import ModelThread
from ..concurrency.scope import is_own_cancel
from ..errors import InferstreamError, InvalidSettings, ModelLoadFailed, own_status
from ..functions.model import AppModel, implementation_of
from ..handlers import get_custom_handlers
from ..imports.folders import importing_alone
from ..model import MLModel, StepModel
from ..settings import ModelSettings
from ..telemetry.context import model_context
from ..telemetry.tracebacks import passed_own_code
from .classes import check_constructor, check_methods, check_object
from .retention import keeps_nothing
from .suspension import is_async, may_suspend, never_suspends

logger = logging.getLogger("inferstream.repository")

UNLOAD_LIMIT = 5.0
"""Seconds that `unload` may wait for a call that still runs in the model's thread."""


Awaiting = Callable[[Awaitable[Any]], Awaitable[Any]]
"""A function that awaits a `load` or `unload` that may block the server's event loop."""


def plainly(awaitable: Awaitable[Any]) -> Awaitable[Any]:
    """Await it directly, where the event loop serves this model only."""
    return awaitable


class LoadedModel(NamedTuple):
    """A loaded model and its own threads."""

    model: MLModel
    never_suspends: bool = False
    """Whether its coroutines block their event loop from their first line to their last."""
    thread: ModelThread | None = None
    """Runs such coroutines of a model that may keep objects bound to a thread."""
    loader: ModelThread | None = None
    """Ran `load` only. Tasks that `load` started still run there."""
    awaiting: Awaiting = plainly
    """Awaits a `load` or `unload` that runs in no thread."""

    @property
    def life(self) -> ModelThread | None:
        """The thread for `load` and `unload`; None for the event loop.

        The hooks of an app run on the event loop: what they make serves all of its functions.
        """
        if isinstance(self.model, AppModel):
            return None
        return self.thread or self.loader

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
        for thread in (self.thread, self.loader):
            if thread is not None:
                thread.close()

    async def _unload(self) -> None:
        model, thread = self.model, self.life
        if thread is None or not thread.calls:
            await _run(model.unload, thread, self.awaiting)
            return
        unloading = asyncio.ensure_future(_run(model.unload, thread, self.awaiting))
        done, _ = await asyncio.wait([unloading], timeout=UNLOAD_LIMIT)
        if done:
            await unloading
        else:
            unloading.add_done_callback(_ignore)
            logger.error("model %s still runs a call; no longer waiting to unload it", model.name)


async def load_model(settings: ModelSettings, timeout: float, awaiting: Awaiting = plainly) -> LoadedModel:
    """Import the model's class, construct it and run its `load`, within `timeout` seconds.

    If the coroutines of a class never suspend, it is constructed and loaded in the thread that will run them, so
    that objects bound to a thread or an event loop work there. If such a class keeps no objects, it needs no thread
    yet. For any other class, a `load` that is a coroutine runs on this event loop, and `awaiting` awaits it.
    Models load in parallel threads, and their imports take turns, including those of `load`.
    Raises ModelLoadFailed with the reason in one line, after `unload`. Its cause is the original error, unless that is
    one of the server's own, of which the reason says all.
    """
    with model_context(settings.name, settings.version), importing_alone():
        loaded: LoadedModel | None = None
        thread: ModelThread | None = None
        try:
            async with asyncio.timeout(timeout):
                # Imports of frameworks take seconds. In a thread, they do not delay the health probes.
                implementation = await asyncio.to_thread(_class_of, settings)
                blocks, keeps = await asyncio.to_thread(_analysed, implementation)
                if blocks and keeps:
                    thread = ModelThread(f"model-{settings.name}")
                construct = asyncio.to_thread if thread is None else thread.call
                model = _object_of(settings)
                if model is None:
                    check_constructor(implementation, settings)
                    model = await construct(implementation, settings)
                    check_object(model)
                loader = ModelThread(f"load-{settings.name}") if _loads_apart(model, thread) else None
                loaded = LoadedModel(model, blocks, thread, loader, awaiting)
                if await _run(model.load, loaded.life, awaiting) is False:
                    raise ModelLoadFailed(f"Model {settings.name} did not load: load() returned False.")
                check_methods(model)
        except BaseException as error:  # model code may raise anything
            if loaded is not None:
                await loaded.unload()
            elif thread is not None:
                thread.close()
            if is_own_cancel(error) or isinstance(error, ModelLoadFailed):
                raise
            if isinstance(error, TimeoutError):
                raise ModelLoadFailed(f"Model {settings.name} did not load within {timeout:g} s.") from None
            reason = f"Model {settings.name} did not load: {_reason(error)}"
            said = isinstance(error, InferstreamError) and not passed_own_code(error)
            raise ModelLoadFailed(reason, own_status(error)) from None if said else error
        loaded.model.ready = True
        return loaded


def _analysed(model: type[MLModel]) -> tuple[bool, bool]:
    """Whether its coroutines never suspend, and whether it may keep objects from call to call."""
    return never_suspends(model), bool(get_custom_handlers(model)) or not keeps_nothing(model)


def _loads_apart(model: MLModel, thread: ModelThread | None) -> bool:
    """Whether `load` is a coroutine that blocks, and no inference of the model runs on the event loop."""
    kind = type(model)
    if thread is not None or kind.load is MLModel.load or "load" in vars(model):
        return False
    names = ("admit", "step", "release") if isinstance(model, StepModel) else ("predict", "predict_stream")
    written = [
        getattr(kind, name) for name in names if getattr(kind, name) is not getattr(MLModel, name, None)
    ]
    return not any(map(is_async, written)) and not may_suspend(kind.load, kind)


def _class_of(settings: ModelSettings) -> type[MLModel]:
    install()
    implementation = implementation_of(settings.implementation, settings.name)
    if implementation is None:
        raise InvalidSettings(f'implementation "{settings.implementation_}" is not a subclass of MLModel')
    return implementation


def _object_of(settings: ModelSettings) -> MLModel | None:
    """The model object that the program provides. Raises InvalidSettings if it serves already."""
    provided = settings.provided
    if provided is None or isinstance(provided, type):
        return None
    if provided.ready:
        raise InvalidSettings("it is an object of the program that serves already")
    model: MLModel = provided
    return model


async def _run(method: Callable[[], Any], thread: ModelThread | None, awaiting: Awaiting) -> Any:
    """Call `load` or `unload`, which may be sync or async."""
    if thread is not None:
        return await thread.call(method)
    if inspect.iscoroutinefunction(method):
        return await awaiting(method())
    result = await asyncio.to_thread(method)
    return await awaiting(result) if inspect.isawaitable(result) else result


def _ignore(unloading: asyncio.Future[Any]) -> None:
    """Read the result of an abandoned `unload`. Otherwise asyncio logs its error as never retrieved."""
    if not unloading.cancelled():
        unloading.exception()


def _reason(error: BaseException) -> str:
    if isinstance(error, InferstreamError):
        return error.message
    first_line = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {first_line[0]}" if first_line else type(error).__name__
