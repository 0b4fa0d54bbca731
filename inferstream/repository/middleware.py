"""Imports the middleware that the settings of the server name."""

import inspect
from pathlib import Path
from typing import Any

from ..errors import InvalidSettings
from ..functions.middleware import Middleware
from ..imports.implementation import resolve
from ..settings import Settings
from ..settings.sources import SETTINGS_FILE


def middlewares_of(settings: Settings) -> tuple[Middleware, ...]:
    """The functions of the setting `middleware`. Raises InvalidSettings, which names the path."""
    source = str(Path(settings.model_repository_root, SETTINGS_FILE))
    return tuple(_imported(path, source) for path in settings.middleware)


def _imported(path: str, source: str) -> Middleware:
    try:
        function: Any = resolve(path, source)
    except Exception as error:  # of a module that a user has written
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSettings(f'middleware "{path}": {reason}') from error
    if not inspect.iscoroutinefunction(function):
        raise InvalidSettings(f'middleware "{path}" is no `async def`')
    checked: Middleware = function
    return checked
