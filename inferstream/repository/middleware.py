"""Loading of the middleware in the server settings."""

import inspect
from pathlib import Path
from typing import Any

from ..errors import InvalidSettings
from ..functions.middleware import Middleware
from ..imports.implementation import resolve
from ..settings import Settings
from ..settings.sources import SETTINGS_FILE


def import_middleware(settings: Settings) -> tuple[Middleware, ...]:
    """Import the functions in the setting `middleware`. Raises InvalidSettings naming the path."""
    source = str(Path(settings.model_repository_root, SETTINGS_FILE))
    return tuple(_import_function(path, source) for path in settings.middleware)


def _import_function(path: str, source: str) -> Middleware:
    try:
        function: Any = resolve(path, source, by_operator=True)
    except Exception as error:  # user code can raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSettings(f'middleware "{path}": {reason}') from error
    if not inspect.iscoroutinefunction(function):
        raise InvalidSettings(f'middleware "{path}" is no `async def`')
    checked: Middleware = function
    return checked
