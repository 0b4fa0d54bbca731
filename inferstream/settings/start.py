"""`ServerStart`: the settings on the command line."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ServerStart:
    """The settings of `server start` that do not come from a file or the environment. Plug-ins can change
    them."""

    flags: dict[str, Any]
    """Values by setting, which override the file and the environment. A plug-in's flag has its name, with `_`
    for `-`."""
    defaults: dict[str, Any]
    """Values of settings that are not set by flags, the file or the environment."""
    classic: bool | None = field(default=False, compare=False)
    """Whether an app with `App.classic` is served. None before the app is imported, when only logging is set
    up."""
