"""`ServerStart`: what a command line says about the settings of a server."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ServerStart:
    """The settings of `server start` beside those in the file and the environment. Plug-ins change them."""

    flags: dict[str, Any]
    """Values that win over the file and the environment, by setting. Flags of plug-ins have their names, with `_`."""
    defaults: dict[str, Any]
    """Values of settings that flags, file and environment do not name."""
    classic: bool | None = field(default=False, compare=False)
    """Whether an app with `App.classic` is served. None before the app is imported, when only its log is set up."""
