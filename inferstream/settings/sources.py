"""Reads settings files and reports their errors."""

import difflib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ..errors import InvalidSettings
from ..extensions import check_names
from .composed import ModelSettings, Settings
from .cors import CORSSettings
from .environment import EnvironmentModel
from .model import ModelParameters
from .sections import UndeclaredField, list_plugins, reserved
from .variables import CLOSE, unknown_variables

logger = logging.getLogger("inferstream.settings")

SETTINGS_FILE = "settings.json"
MODEL_SETTINGS_FILE = "model-settings.json"
MAX_FILE_BYTES = 2**20

WITHOUT_EFFECT = ("warm_workers",)
"""Fields of a model's settings in MLServer that are accepted and have no effect."""

PLACES: Mapping[str, type[EnvironmentModel]] = {
    MODEL_SETTINGS_FILE: ModelSettings,
    SETTINGS_FILE: Settings,
    f'"parameters" of {MODEL_SETTINGS_FILE}': ModelParameters,
}
"""Where settings belong; the last one that has a name wins."""

Model = TypeVar("Model", bound=EnvironmentModel)


class ConflictingSettings(InvalidSettings):
    """Settings that exclude each other, which is wrong usage of the command."""


def load_settings(folder: str | Path, flags: Mapping[str, Any] | None = None) -> Settings:
    """The server's settings: flags over `settings.json` in `folder` over the environment over defaults.

    Raises InvalidSettings, which names the source, the field and the allowed values.
    """
    path = Path(folder) / SETTINGS_FILE
    values = read_json(path) if path.exists() else {}
    faults = [f"{path}: {fault}" for fault in unknown_fields(Settings, values)]
    faults += [f"environment: {fault}" for fault in unknown_variables()]
    if faults:
        faults[-1] += f"; {list_plugins()}"
    for fault in faults:
        logger.warning("%s", fault)
    flags_set = {name: value for name, value in (flags or {}).items() if value is not None}
    root = {"model_repository_root": str(folder)}
    settings = validated(Settings, {**values, **root, **flags_set}, str(path) if values else "settings")
    if faults and settings.strict:
        check_names(strict=True)  # first: a section that is set aside has settings that are unknown
        raise InvalidSettings(refused_by_strict(faults))
    return settings


def load_model_settings(path: str | Path) -> ModelSettings:
    """The settings of one model: its file over the environment.

    Raises InvalidSettings, which names the file, the field and the allowed values.
    """
    path = Path(path)
    values = read_json(path)
    faults = unknown_fields(ModelSettings, values)
    if faults:
        faults[-1] += f"; {list_plugins()}"
    faults += misplaced_parameters(values)
    for fault in faults:
        logger.warning("%s: %s", path, fault)
    settings = validated(ModelSettings, values, str(path))
    settings._source = str(path)
    settings._faults = tuple(faults)
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
        conflict = any(not fault["loc"] for fault in error.errors())
        raise (ConflictingSettings if conflict else InvalidSettings)(
            f"{source}: " + "; ".join(faults)
        ) from None
    except UndeclaredField as error:
        raise InvalidSettings(f"{source}: {error.message}") from None
    except ValueError as error:
        # pydantic-settings' error for a variable without JSON. Its own class takes long to import.
        raise InvalidSettings(f"environment: {error}") from None


def refused_by_strict(faults: Sequence[str]) -> str:
    """The error of a start that `strict` ends because of warnings about its configuration."""
    return f"--strict: {'; '.join(faults)}".replace(" and ignored", "")


def _fault(fault: Any, values: Mapping[str, Any]) -> str:
    location = [str(part) for part in fault["loc"]]
    if not location:  # settings that exclude each other, whose values would be a dump of all settings
        return str(fault["msg"]).removeprefix("Value error, ")
    field = ".".join(location)
    where = "" if not location or location[0] in values else " (from the environment)"
    if fault["type"] == "missing":
        return f'field "{field}" is required'
    value = repr(fault["input"])
    return f'field "{field}"{where}: {fault["msg"]}, got {value if len(value) <= 60 else value[:57] + "..."}'


def unknown_fields(settings: type[EnvironmentModel], values: Mapping[str, Any]) -> list[str]:
    """One sentence for each key that is not a field of `settings`."""
    known = _names(settings) | {"_source"}
    refused = reserved(settings._group)  # they end the start, and need no warning
    faults = []
    for key in values:
        if key not in known and key not in refused:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f'did you mean "{close[0]}"?' if close else ""
            for place, kind in PLACES.items():
                if kind is not settings and key in _names(kind):
                    hint = f"it belongs in {place}"
            faults.append(f'field "{key}" is unknown and ignored{hint and f"; {hint}"}')
    if isinstance(cors := values.get("cors_settings"), dict) and settings is Settings:
        faults += [f"cors_settings: {fault}" for fault in unknown_fields(CORSSettings, cors)]
    return faults


def misplaced_parameters(values: Mapping[str, Any]) -> list[str]:
    """A sentence for each key of `parameters` that belongs one level up, or is nearly one of its declared keys.

    Runtimes read further keys of their own.
    """
    parameters = values.get("parameters")
    if not isinstance(parameters, dict):
        return []
    declared, above = _names(ModelParameters), _names(ModelSettings)
    faults = []
    for key in parameters.keys() - declared:
        close = difflib.get_close_matches(key, declared, n=1, cutoff=CLOSE)
        if key in above:
            faults.append(
                f'"{key}" in parameters has no effect; it belongs one level up, next to "parameters"'
            )
        elif close:
            faults.append(f'"{key}" in parameters is unknown; did you mean "{close[0]}"?')
    return sorted(faults)


def _names(settings: type[EnvironmentModel]) -> set[str]:
    return {field.alias or name for name, field in settings.model_fields.items()}
