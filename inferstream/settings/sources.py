"""Settings files: reading, validation and error messages."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ..errors import HINT, InvalidSettings
from ..extensions.loading import check_names
from ..types.json_faults import describe_json_fault
from .composed import ModelSettings, Settings
from .cors import CORSSettings
from .environment import EnvironmentModel, variables
from .faults import describe_fault
from .model import ModelParameters
from .sections import UndeclaredField, list_plugins, reserved_names
from .suggestions import WITHOUT_EFFECT as WITHOUT_EFFECT
from .suggestions import suggest
from .trusted import enforce_trust
from .variables import CLOSE, unknown_variables

logger = logging.getLogger("inferstream.settings")

SETTINGS_FILE = "settings.json"
MODEL_SETTINGS_FILE = "model-settings.json"
MAX_FILE_BYTES = 2**20

PLACES: Mapping[str, type[EnvironmentModel]] = {
    MODEL_SETTINGS_FILE: ModelSettings,
    SETTINGS_FILE: Settings,
    f'"parameters" of {MODEL_SETTINGS_FILE}': ModelParameters,
}
"""The classes of settings by location, for hints about misplaced fields. The last location that has a name
wins."""

Model = TypeVar("Model", bound=EnvironmentModel)


class ConflictingSettings(InvalidSettings):
    """Settings that exclude each other. The command exits with a usage error."""


def load_settings(
    folder: str | Path, flags: Mapping[str, Any] | None = None, spellings: Mapping[str, str] | None = None
) -> Settings:
    """Load the server settings: flags override `settings.json` in `folder`, which overrides the environment.

    `spellings` has the flag of each setting as the user writes it, such as `--http-port`, for error messages.
    Raises InvalidSettings naming the source, the field and the allowed values.
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
    merged = {**values, **root, **flags_set}
    settings = validate(Settings, merged, str(path) if values else "settings", spellings)
    enforce_trust(settings, Path(folder), values, flags_set)
    if faults and settings.strict:
        check_names(strict=True)  # Checked first: the settings of a section that was left out are unknown.
        raise InvalidSettings(refused_by_strict(faults))
    return settings


def load_model_settings(path: str | Path) -> ModelSettings:
    """Load the settings of one model: its file overrides the environment.

    Raises InvalidSettings with the file, the field and the allowed values.
    """
    path = Path(path)
    values = read_json(path)
    faults = unknown_fields(ModelSettings, values)
    if faults:
        faults[-1] += f"; {list_plugins()}"
    faults += misplaced_parameters(values)
    for fault in faults:
        logger.warning("%s: %s", path, fault)
    settings = validate(ModelSettings, values, str(path))
    settings._source = str(path)
    settings._faults = tuple(faults)
    if unused := [f'"{name}"' for name in WITHOUT_EFFECT if getattr(settings, name)]:
        logger.warning("%s: accepted but without effect: %s", path, ", ".join(unused))
    return settings


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a regular file. Raises InvalidSettings, for invalid JSON with its line and
    column."""
    try:
        if not path.is_file():
            raise InvalidSettings(f"{path}: not a regular file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidSettings(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        values = json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InvalidSettings(
            f"{path}: {describe_json_fault(error.doc, error.pos, error.msg, HINT)}"
        ) from None
    except (ValueError, RecursionError):  # not UTF-8, nested too deeply, or an integer of over 4,300 digits
        raise InvalidSettings(f"{path}: not a JSON text") from None
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
    if not isinstance(values, dict):
        raise InvalidSettings(f"{path}: must hold a JSON object")
    return values


def validate(
    settings: type[Model], values: dict[str, Any], source: str, spellings: Mapping[str, str] | None = None
) -> Model:
    """Build an instance of `settings`. Raises InvalidSettings, which lists all invalid fields.

    `source` names the origin of all values except those with a flag in `spellings`.
    """
    try:
        return settings(**values)
    except ValidationError as error:
        faults: dict[str, list[str]] = {}
        for each in error.errors():
            origin, fault = _fault(settings, each, values, source, spellings or {})
            faults.setdefault(origin, []).append(fault)
        conflict = any(not fault["loc"] for fault in error.errors())
        raise (ConflictingSettings if conflict else InvalidSettings)(
            "; ".join(f"{origin}: {'; '.join(each)}" for origin, each in faults.items())
        ) from None
    except UndeclaredField as error:
        raise InvalidSettings(f"{source}: {error.message}") from None
    except ValueError as error:
        # Raised by pydantic-settings for a variable without JSON. Its subclass is slow to import.
        raise InvalidSettings(f"environment: {_variable_fault(settings, error)}") from None


def _variable_fault(settings: type[EnvironmentModel], error: ValueError) -> str:
    """Name the environment variable that does not contain JSON. The pydantic-settings error only has the
    field."""
    _, _, rest = str(error).partition('field "')
    name = _find_variable(settings, rest.partition('"')[0])
    cause = error.__cause__
    if name is None or not isinstance(cause, json.JSONDecodeError):
        return str(error)
    return f"{name}: {describe_json_fault(cause.doc, cause.pos, cause.msg, HINT)}"


def _find_variable(settings: type[EnvironmentModel], field: str) -> str | None:
    """Return the environment variable that sets a field, or None."""
    known = {name.upper() for name in variables()}
    names = (prefix + field.upper() for prefix in settings.env_prefixes)
    return next((name for name in names if name in known), None)


def refused_by_strict(faults: Sequence[str]) -> str:
    """Build the error message for configuration warnings in strict mode."""
    return f"--strict: {'; '.join(faults)}".replace(" and ignored", "")


def _fault(
    settings: type[EnvironmentModel],
    fault: Any,
    values: Mapping[str, Any],
    source: str,
    spellings: Mapping[str, str],
) -> tuple[str, str]:
    """Return the origin of an invalid value, and the reason why it is invalid."""
    location = [str(part) for part in fault["loc"]]
    if not location:  # Settings that exclude each other. Their input would be a dump of all settings.
        return source, str(fault["msg"]).removeprefix("Value error, ")
    first, missing = location[0], fault["type"] == "missing"
    variable = _find_variable(settings, first)
    if first in spellings:
        source, location = spellings[first], location[1:]
    elif variable is not None and not (first in values if missing else _is_among(values, location)):
        source, location = f"environment: {variable}", location[1:]
    field = f'field "{".".join(location)}"'
    if missing:
        return source, f"{field} is required"
    value = repr(fault["input"])
    got = value if len(value) <= 60 else value[:57] + "..."
    if first in spellings and not location:
        return f"{source} {str(fault['input'])[:60]}", describe_fault(fault)
    return source, f"{field + ': ' if location else ''}{describe_fault(fault)}, got {got}"


def _is_among(values: Mapping[str, Any], location: list[str]) -> bool:
    """Whether these values include the one at a location, which may also come from a variable."""
    inner: Any = values
    for part in location:
        if isinstance(inner, Mapping):
            if part not in inner:
                return False
            inner = inner[part]
    return True


def unknown_fields(settings: type[EnvironmentModel], values: Mapping[str, Any]) -> list[str]:
    """Describe each key that is not a field of `settings`."""
    known = _names(settings) | {"_source"}
    refused = reserved_names(settings._group)  # These are errors, so a warning is not needed.
    faults = []
    for key in values:
        if key not in known and key not in refused:
            meant = suggest(key, known)
            hint = f'did you mean "{meant}"?' if meant else ""
            for place, kind in PLACES.items():
                if kind is not settings and key in _names(kind):
                    hint = f"it belongs in {place}"
            faults.append(f'field "{key}" is unknown and ignored{hint and f"; {hint}"}')
    if isinstance(cors := values.get("cors_settings"), dict) and settings is Settings:
        faults += [f"cors_settings: {fault}" for fault in unknown_fields(CORSSettings, cors)]
    return faults


def misplaced_parameters(values: Mapping[str, Any]) -> list[str]:
    """Describe each key of `parameters` that belongs one level up, or resembles a declared key.

    Other keys are allowed, because runtimes can read them.
    """
    parameters = values.get("parameters")
    if not isinstance(parameters, dict):
        return []
    declared, above = _names(ModelParameters), _names(ModelSettings)
    faults = []
    for key in parameters.keys() - declared:
        meant = suggest(key, declared, CLOSE)
        if key in above:
            faults.append(
                f'"{key}" in parameters has no effect; it belongs one level up, next to "parameters"'
            )
        elif meant:
            faults.append(f'"{key}" in parameters is unknown; did you mean "{meant}"?')
    return sorted(faults)


def _names(settings: type[EnvironmentModel]) -> set[str]:
    return {field.alias or name for name, field in settings.model_fields.items()}
