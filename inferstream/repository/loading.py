"""From settings to a loaded `MLModel`, and back."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from ..errors import InferstreamError, InvalidSettings, ModelLoadFailed, own_status
from ..model import MLModel
from ..settings import ModelSettings
from ..telemetry.context import model_context
from .mlserver_imports import install

logger = logging.getLogger("inferstream.repository")


async def load_model(settings: ModelSettings, timeout: float) -> MLModel:
    """Import the model's class, construct it and run its `load`, within `timeout` seconds.

    Raises ModelLoadFailed with one line that says why, and as its cause what there is to log beside it.
    `unload` has then been called.
    """
    with model_context(settings.name, settings.version):
        model: MLModel | None = None
        try:
            async with asyncio.timeout(timeout):
                # Imports of frameworks take seconds, and health must answer meanwhile.
                model = await asyncio.to_thread(_construct, settings)
                if await _run(model.load) is False:
                    raise ModelLoadFailed(f"Model {settings.name} did not load: load() returned False.")
        except BaseException as error:
            if model is not None:
                await unload_model(model)
            if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                raise
            if isinstance(error, ModelLoadFailed):
                raise
            if isinstance(error, TimeoutError):
                raise ModelLoadFailed(f"Model {settings.name} did not load within {timeout:g} s.") from None
            reason = f"Model {settings.name} did not load: {_reason(error)}"
            raise ModelLoadFailed(reason, own_status(error)) from error
        model.ready = True
        return model


async def unload_model(model: MLModel) -> None:
    """Run the model's `unload`; what it raises is logged, because the model goes all the same."""
    with model_context(model.name, model.version):
        model.ready = False
        try:
            await _run(model.unload)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                raise
            logger.exception("model %s failed to unload", model.name)


def _being_cancelled() -> bool:
    """Whether a cancel is meant for us, and not one that the model's own code let escape."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _construct(settings: ModelSettings) -> MLModel:
    install()
    implementation = settings.implementation
    if not issubclass(implementation, MLModel):
        raise InvalidSettings(f'implementation "{settings.implementation_}" is not a subclass of MLModel')
    return implementation(settings)


async def _run(method: Callable[[], Any]) -> Any:
    """Call `load` or `unload`, which authors write sync or async."""
    if inspect.iscoroutinefunction(method):
        return await method()
    result = await asyncio.to_thread(method)
    return await result if inspect.isawaitable(result) else result


def _reason(error: BaseException) -> str:
    if isinstance(error, InferstreamError):
        return error.message
    first_line = str(error).strip().splitlines()[:1]
    return f"{type(error).__name__}: {first_line[0]}" if first_line else type(error).__name__
