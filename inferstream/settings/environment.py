"""Environment variables: ours first, MLServer's next, then `.env` in the working folder."""

from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
)

PREFIX = "INFERSTREAM_"
MLSERVER_PREFIX = "MLSERVER_"
MODEL_PREFIX = "INFERSTREAM_MODEL_"
MLSERVER_MODEL_PREFIX = "MLSERVER_MODEL_"
ENV_FILE = ".env"


def environment_sources(
    settings_class: type[BaseSettings], *prefixes: str
) -> tuple[PydanticBaseSettingsSource, ...]:
    """The environment by each prefix in turn, then `.env` by each; an earlier source wins."""
    return (
        *(EnvSettingsSource(settings_class, env_prefix=prefix) for prefix in prefixes),
        *(DotEnvSettingsSource(settings_class, env_file=ENV_FILE, env_prefix=prefix) for prefix in prefixes),
    )
