"""Settings from the environment: our variables first, then MLServer's, then `.env` in the working folder."""

import logging
import os
import re
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

_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")

logger = logging.getLogger("inferstream.settings")

_complete: ContextVar[bool] = ContextVar("settings_complete", default=False)

EnvFile = str | Path | Sequence[str | Path] | None
EnvironmentSnapshot = tuple[tuple[str, str], ...]
SettingValues = dict[str, Any]  # named here because a method called `dict` hides the type inside the class

Value = TypeVar("Value")

AS_SET: SettingValues = {"by_alias": True, "exclude_unset": True, "exclude_none": True}
"""Options with which MLServer dumps settings. Its users write the result into files."""


class EnvironmentModel(OlderNames, BaseModel):
    """Settings that take absent fields from the environment.

    pydantic's BaseSettings reads the environment for every instance, which took most of the start time with
    thousands of models.
    """

    env_prefixes: ClassVar[tuple[str, ...]] = (PREFIX, MLSERVER_PREFIX)
    _group: ClassVar[str] = ""
    """The group of the sections that join it, if any do."""

    def __init__(self, **values: Any) -> None:
        env_file: EnvFile = values.pop("_env_file", ENV_FILE)
        if not _complete.get():
            values = merged(self.from_environment(env_file), values)
        super().__init__(**values)

    @classmethod
    def from_environment(cls, env_file: EnvFile = ENV_FILE) -> SettingValues:
        """Values of the environment. Variables win over `env_file`; of several files, the last wins."""
        files = (env_file,) if isinstance(env_file, str | Path) else tuple(env_file or ())
        return _environment(cls, tuple(map(str, files)), _snapshot(files))

    @classmethod
    def check_variables(cls, prefix: str, names: Iterable[str]) -> None:
        """Raise InvalidSettings for a variable that must not be ignored. Prefix and names are in lower case."""

    def dict(self, **options: Any) -> SettingValues:
        """The fields that were set, under their names in a file."""
        return self.model_dump(**{**AS_SET, **options})

    def json(self, **options: Any) -> str:
        """The fields that were set, as the JSON of a file."""
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
        """An instance from JSON that another process has merged with the environment."""
        token = _complete.set(True)
        try:
            return cls.model_validate_json(values)
        finally:
            _complete.reset(token)


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """`high` over `low`, objects key by key."""
    result = dict(low)
    for name, value in high.items():
        below = result.get(name)
        result[name] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def variables() -> Mapping[str, str | None]:
    """The variables of the process, over those in the file of the working folder."""
    if not os.path.isfile(ENV_FILE):
        return os.environ
    from dotenv import dotenv_values  # late: most folders have no such file

    return {**dotenv_values(ENV_FILE), **os.environ}


def variable(name: str) -> str | None:
    """The value of one setting in the environment, whatever the other variables are."""
    values = {key.upper(): value for key, value in variables().items()}
    return values.get(f"{PREFIX}{name.upper()}", values.get(f"{MLSERVER_PREFIX}{name.upper()}"))


def expanded(value: Value) -> Value | str:
    """A path with `~` and `$NAME` replaced. URIs and values that are not text do not change."""
    if not isinstance(value, str) or "://" in value:
        return value
    return os.path.expandvars(os.path.expanduser(value))


def _snapshot(files: Sequence[str | Path]) -> EnvironmentSnapshot:
    """The input of `_environment`: variables with our prefixes, and the stamps of the files."""
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
    # Imported late: it takes 0.2 s, and most processes have no such variables.
    from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

    kind = cast("type[BaseSettings]", settings)  # the sources only read its fields and configuration
    values: dict[str, Any] = {}
    for prefix in reversed(settings.env_prefixes):
        file = DotEnvSettingsSource(kind, env_file=files, env_prefix=prefix)
        settings.check_variables(prefix.lower(), (name for name, value in file.env_vars.items() if value))
        values = merged(values, file())
    for prefix in reversed(settings.env_prefixes):
        source = EnvSettingsSource(kind, env_prefix=prefix)
        settings.check_variables(prefix.lower(), (name for name, value in source.env_vars.items() if value))
        values = merged(values, _without_service_links(source(), prefix))
    return values


def _without_service_links(variables: SettingValues, prefix: str) -> SettingValues:
    """The variables, except ports that Kubernetes has set for a Service, such as `tcp://10.0.0.1:8081`."""
    links = {
        name
        for name, value in variables.items()
        if name.endswith("_port") and isinstance(value, str) and _SERVICE_LINK.match(value)
    }
    for name in sorted(links):
        logger.warning(
            "environment: %s%s is ignored: Kubernetes sets it for a Service of that name; "
            "`enableServiceLinks: false` in the pod turns it off",
            prefix,
            name.upper(),
        )
    return {name: value for name, value in variables.items() if name not in links}
