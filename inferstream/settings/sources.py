"""Reads settings files and reports their errors."""

import difflib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ..errors import InvalidSettings
from .environment import EnvironmentModel
from .model import ModelSettings
from .server import Settings
from .variables import unknown_variables

logger = logging.getLogger("inferstream.settings")

SETTINGS_FILE = "settings.json"
MODEL_SETTINGS_FILE = "model-settings.json"
MAX_FILE_BYTES = 2**20

WITHOUT_EFFECT = ("warm_workers",)
"""Fields of a model's settings in MLServer that are accepted and have no effect."""

Model = TypeVar("Model", bound=EnvironmentModel)


def load_settings(folder: str | Path, flags: Mapping[str, Any] | None = None) -> Settings:
    """The server's settings: flags over `settings.json` in `folder` over the environment over defaults.

    Raises InvalidSettings, which names the source, the field and the allowed values.
    """
    path = Path(folder) / SETTINGS_FILE
    values = read_json(path) if path.exists() else {}
    _warn_unknown(Settings, values, str(path))
    for fault in unknown_variables():
        logger.warning("environment: %s", fault)
    flags_set = {name: value for name, value in (flags or {}).items() if value is not None}
    root = {"model_repository_root": str(folder)}
    return validated(Settings, {**values, **root, **flags_set}, str(path) if values else "settings")


def load_model_settings(path: str | Path) -> ModelSettings:
    """The settings of one model: its file over the environment.

    Raises InvalidSettings, which names the file, the field and the allowed values.
    """
    path = Path(path)
    values = read_json(path)
    _warn_unknown(ModelSettings, values, str(path))
    settings = validated(ModelSettings, values, str(path))
    settings._source = str(path)
    if unused := [f'"{name}"' for name in WITHOUT_EFFECT if getattr(settings, name)]:
        logger.warning("%s: understood and without effect: %s", path, ", ".join(unused))
    return settings


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a regular file. Raises InvalidSettings, with line and column for invalid JSON."""
    try:
        if not path.is_file():
            raise InvalidSettings(f"{path}: not a regular file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidSettings(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        values = json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InvalidSettings(f"{path}: line {error.lineno} column {error.colno}: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError):
        raise InvalidSettings(f"{path}: not a JSON text") from None
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
    if not isinstance(values, dict):
        raise InvalidSettings(f"{path}: must hold a JSON object")
    return values


def validated(settings: type[Model], values: dict[str, Any], source: str) -> Model:
    """An instance of `settings`. Raises InvalidSettings, which names every wrong field."""
    try:
        return settings(**values)
    except ValidationError as error:
        faults = [_fault(fault, values) for fault in error.errors()]
        raise InvalidSettings(f"{source}: " + "; ".join(faults)) from None
    except ValueError as error:
        # pydantic-settings' error for a variable without JSON. Its own class takes long to import.
        raise InvalidSettings(f"environment: {error}") from None


def _fault(fault: Any, values: Mapping[str, Any]) -> str:
    location = [str(part) for part in fault["loc"]]
    field = ".".join(location)
    where = "" if not location or location[0] in values else " (from the environment)"
    if fault["type"] == "missing":
        return f'field "{field}" is required'
    value = repr(fault["input"])
    return f'field "{field}"{where}: {fault["msg"]}, got {value if len(value) <= 60 else value[:57] + "..."}'


def _warn_unknown(settings: type[EnvironmentModel], values: Mapping[str, Any], source: str) -> None:
    for fault in unknown_fields(settings, values):
        logger.warning("%s: %s", source, fault)


def unknown_fields(settings: type[EnvironmentModel], values: Mapping[str, Any]) -> list[str]:
    """One sentence for each key that is not a field of `settings`."""
    known = {field.alias or name for name, field in settings.model_fields.items()} | {"_source"}
    faults = []
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f'; did you mean "{close[0]}"?' if close else ""
            faults.append(f'field "{key}" is unknown and ignored{hint}')
    return faults
