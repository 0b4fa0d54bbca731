"""Settings from the environment: `INFERSTREAM_*` variables, then `MLSERVER_*`, then `.env` in the working
folder."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import core_schema

from ..types.base import OlderNames
from .descriptions import describe_fields

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

PREFIX = "INFERSTREAM_"
MLSERVER_PREFIX = "MLSERVER_"
MODEL_PREFIX = "INFERSTREAM_MODEL_"
MLSERVER_MODEL_PREFIX = "MLSERVER_MODEL_"
ENV_FILE = ".env"

SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
"""The beginning of the value that Kubernetes gives a variable such as NAME_PORT, for a Service called NAME."""

OTHERS = re.compile(
    r"INFER_.*"  # `server infer`
    r"|PATH|MODELS_DIR|ENV_TARBALL"  # images of MLServer
    r"|(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_.*)?)"  # Kubernetes, of a service
)
"""Variables, without their prefix, that other programs set or read."""

logger = logging.getLogger("inferstream.settings")

_complete: ContextVar[bool] = ContextVar("settings_complete", default=False)

EnvFile = str | Path | Sequence[str | Path] | None
EnvironmentSnapshot = tuple[tuple[str, str], ...]
SettingValues = dict[str, Any]  # Defined here because the method `dict` hides the type inside the class.

Value = TypeVar("Value")

AS_SET: SettingValues = {"by_alias": True, "exclude_unset": True, "exclude_none": True}
"""The options of `dict` and `json`, as in MLServer: the output can be saved as a settings file."""


class EnvironmentModel(OlderNames, BaseModel):
    """Settings that take missing fields from the environment.

    The values of the environment are cached for all instances. pydantic's `BaseSettings` reads them for each
    instance, which takes most of the startup time with thousands of models.
    """

    env_prefixes: ClassVar[tuple[str, ...]] = (PREFIX, MLSERVER_PREFIX)
    _group: ClassVar[str] = ""
    """The extension group of the sections that join these settings. Empty if none do."""

    def __init__(self, **values: Any) -> None:
        env_file: EnvFile = values.pop("_env_file", ENV_FILE)
        if not _complete.get():
            values = merge(self.from_environment(env_file), values)
        super().__init__(**values)

    @classmethod
    def from_environment(cls, env_file: EnvFile = ENV_FILE) -> SettingValues:
        """Return the values in the environment. Variables override `env_file`, and later files override
        earlier ones."""
        files = (env_file,) if isinstance(env_file, str | Path) else tuple(env_file or ())
        return _environment(cls, tuple(map(str, files)), _snapshot(files))

    @classmethod
    def check_variables(cls, prefix: str, names: Iterable[str]) -> None:
        """Raise InvalidSettings for a variable that must not be ignored. `prefix` and `names` are in lower
        case."""

    def dict(self, **options: Any) -> SettingValues:
        """Return the fields that were set, by their names in a settings file."""
        return self.model_dump(**{**AS_SET, **options})

    def json(self, **options: Any) -> str:
        """Return the fields that were set as the JSON of a settings file."""
        return self.model_dump_json(**{**AS_SET, **options})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> SettingValues:
        document = handler(schema)
        properties = handler.resolve_ref_schema(document)["properties"]
        for name, description in describe_fields(cls).items():
            alias = cls.model_fields[name].alias
            properties[alias if alias in properties else name]["description"] = description
        return document

    @classmethod
    def from_complete(cls, values: bytes) -> Self:
        """Build an instance from JSON that another process has already merged with the environment."""
        token = _complete.set(True)
        try:
            return cls.model_validate_json(values)
        finally:
            _complete.reset(token)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively. Values in `high` override values in `low`."""
    result = dict(low)
    for name, value in high.items():
        below = result.get(name)
        result[name] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def variables() -> Mapping[str, str | None]:
    """Return the variables of the process and of `.env` in the working folder. Variables of the process take
    precedence."""
    if not os.path.isfile(ENV_FILE):
        return os.environ
    from dotenv import dotenv_values  # Imported lazily: most folders have no .env file.

    return {**dotenv_values(ENV_FILE), **os.environ}


def variable(name: str) -> str | None:
    """Return the value of one setting in the environment, or None if it is not set."""
    values = {key.upper(): value for key, value in variables().items()}
    return values.get(f"{PREFIX}{name.upper()}", values.get(f"{MLSERVER_PREFIX}{name.upper()}"))


def is_foreign(name: str, value: str | None) -> bool:
    """Whether another program sets or reads a variable. `name` has no prefix.

    Kubernetes sets a name that ends in PORT to a URL, and users set it to a number.
    """
    is_link = name.endswith("PORT") and SERVICE_LINK.match(value or "") is not None
    return is_link or OTHERS.fullmatch(name) is not None


def replaces_mlserver() -> bool:
    """Whether the command `mlserver` started this process, or a variable of MLServer configures it."""
    theirs = {
        name.upper(): value for name, value in variables().items() if name.upper().startswith(MLSERVER_PREFIX)
    }
    theirs.pop(f"{MLSERVER_PREFIX}HOST", None)  # our image sets it
    return Path(sys.argv[0]).name == "mlserver" or any(
        not is_foreign(name.removeprefix(MLSERVER_PREFIX), value) for name, value in theirs.items()
    )


def expand_path(value: Value) -> Value | str:
    """Expand `~` and `$NAME` in a path. URIs and values other than strings are returned unchanged."""
    if not isinstance(value, str) or "://" in value:
        return value
    return os.path.expandvars(os.path.expanduser(value))


def _snapshot(files: Sequence[str | Path]) -> EnvironmentSnapshot:
    """The cache key of `_environment`: the variables with known prefixes, and the times and sizes of the
    files."""
    prefixes = (PREFIX, MLSERVER_PREFIX)
    stamps = [(name, value) for name, value in os.environ.items() if name.upper().startswith(prefixes)]
    for file in files:
        try:
            stamp = os.stat(file)
            stamps.append((str(Path(file).absolute()), f"{stamp.st_mtime_ns} {stamp.st_size}"))
        except OSError:
            pass
    return tuple(stamps)


@lru_cache(maxsize=64)
def _environment(
    settings: type[EnvironmentModel], files: tuple[str, ...], snapshot: EnvironmentSnapshot
) -> dict[str, Any]:
    if not snapshot:
        return {}
    # Imported lazily: the import takes 0.2 s, and most processes have no such variables.
    from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

    kind = cast("type[BaseSettings]", settings)  # The sources only read its fields and configuration.
    values: dict[str, Any] = {}
    for prefix in reversed(settings.env_prefixes):
        file = DotEnvSettingsSource(kind, env_file=files, env_prefix=prefix)
        settings.check_variables(prefix.lower(), (name for name, value in file.env_vars.items() if value))
        values = merge(values, file())
    for prefix in reversed(settings.env_prefixes):
        source = EnvSettingsSource(kind, env_prefix=prefix)
        settings.check_variables(prefix.lower(), (name for name, value in source.env_vars.items() if value))
        values = merge(values, _without_service_links(source(), prefix))
    return values


def _without_service_links(variables: SettingValues, prefix: str) -> SettingValues:
    """Remove the ports that Kubernetes sets for a Service, such as `tcp://10.0.0.1:8081`."""
    links = {
        name
        for name, value in variables.items()
        if name.endswith("_port") and isinstance(value, str) and SERVICE_LINK.match(value)
    }
    for name in sorted(links):
        logger.warning(
            "environment: %s%s ignored: Kubernetes sets it for a Service of that name; "
            "set `enableServiceLinks: false` in the pod to avoid this",
            prefix,
            name.upper(),
        )
    return {name: value for name, value in variables.items() if name not in links}
