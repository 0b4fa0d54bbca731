"""The server settings while a list of trusted runtimes is in force."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import HINT, InvalidSettings
from ..imports.trusted import TrustedRuntimes
from .environment import ENV_FILE, PREFIX

if TYPE_CHECKING:
    from .composed import Settings

LIST = "trusted_runtimes"
"""The name of the setting, and a part of its other spellings."""

OF_OPERATOR = (LIST, "middleware", "model_repository_implementation", "logging_settings")
"""Settings that select code. Whoever uploads models may also upload the settings file next to them."""


_folders_with_list: set[Path] = set()
"""Folders whose settings file has put a list in force. The operator wrote these files."""


def enforce_trust(
    settings: "Settings",
    folder: Path | None = None,
    values: Mapping[str, Any] = {},
    flags: Mapping[str, Any] = {},
) -> None:
    """Put the list of trusted runtimes in the settings in force.

    `values` are from the settings file in the folder of the models, and cannot replace the list of a flag or
    of the environment. Raises InvalidSettings for an unusable list, and while a list is in force, for
    settings that it forbids.
    """
    for name, path in {**settings.from_environment(), **flags}.items():
        if LIST in name.lower() and path is not None:
            TrustedRuntimes.read(path).enforce()
    if folder is not None and folder not in _folders_with_list:
        if TrustedRuntimes.current() is not None:
            _reject_uploaded(folder, values)
        elif settings.trusted_runtimes_file is not None:
            _folders_with_list.add(folder)
    if settings.trusted_runtimes_file is not None:
        TrustedRuntimes.read(settings.trusted_runtimes_file).enforce()
    if (cors := settings.cors_settings) is None or TrustedRuntimes.current() is None:
        return
    is_open = {
        "allow_origins": "*" in cors.allow_origins,
        "allow_origin_regex": cors.allow_origin_regex is not None,
    }
    if opening := next((name for name in is_open if is_open[name]), None):
        raise InvalidSettings(
            f'cors_settings: "{opening}" opens the server to any page{HINT}with trusted runtimes, list the origins'
        )


def _reject_uploaded(folder: Path, values: Mapping[str, Any]) -> None:
    """Raise InvalidSettings if files in the folder of the models can select code for the server to run."""
    for key, value in values.items():
        name = next((name for name in OF_OPERATOR if name in key.lower()), None)
        if name is not None and (value or name == LIST):  # An empty path would replace that of `.env`.
            raise InvalidSettings(
                f"{key} in the settings file of the models can select code, which trusted runtimes forbid"
                f"{HINT}set {PREFIX}{name.upper()} in the environment"
            )
    if Path(ENV_FILE).is_file() and Path.cwd().is_relative_to(folder.resolve()):
        raise InvalidSettings(
            f"{ENV_FILE} in the folder of the models can select code, which trusted runtimes forbid"
            f"{HINT}start the server in another folder"
        )
