"""Server settings for names, ports and models."""

from functools import cache
from ipaddress import ip_address
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from .cors import CORSSettings
from .environment import EnvironmentModel, replaces_mlserver


@cache
def own_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version  # Imported lazily: it is slow to import.

    try:
        return version("inferstream")
    except PackageNotFoundError:
        return "0"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class ServedSettings(EnvironmentModel):
    """The fields of `settings.json` for names, ports and models."""

    model_config = ConfigDict(protected_namespaces=())

    debug: bool = False
    """Log at debug level, with one line per request."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] | None = None
    """Write only log lines of this level and above. If null: `INFO`, or `DEBUG` with `debug`."""

    server_name: str = "inferstream"
    """Server name in the server metadata."""

    server_version: str = Field(default_factory=own_version)
    """Server version in the server metadata. Default: the version of inferstream."""

    extensions: list[str] = Field(default_factory=list)
    """Additional extensions in the server metadata."""

    host: str = "127.0.0.1"
    """Address to listen on. Use `0.0.0.0` to make the server available to the network."""

    http_port: int = Field(default=8080, ge=0, le=65535)
    """Port for REST, server-sent events and WebSocket."""

    grpc_port: int | None = Field(default=8081, ge=0, le=65535)
    """Port for gRPC. If null or equal to `http_port`, one port serves both."""

    metrics_port: int = Field(default=8082, ge=0, le=65535)
    """Port for the metrics endpoint, and for `/v2/health/live` and `/v2/health/ready` without a key."""

    root_path: str = ""
    """Path prefix under which your proxy publishes the server, whether or not the proxy removes it."""

    cors_settings: CORSSettings | None = None
    """CORS rules for browsers. Set them if your web page has another origin. If null, such pages are
    rejected."""

    allowed_hosts: list[str] = Field(default_factory=list)
    """Additional values of the `Host` header that a server on loopback accepts, such as `.example.org` for
    all its subdomains or `*` for any host. Beyond loopback, every value is accepted."""

    model_repository_root: str = "."
    """Folder of the models. The command line takes precedence."""

    model_repository_implementation: str | None = None
    """Import path of a ModelRepository subclass. If null: the models in the folder."""

    model_repository_implementation_args: dict[str, Any] = Field(default_factory=dict)
    """Additional keyword arguments for the model repository."""

    repository_poll: float | None = Field(default=None, gt=0)
    """Seconds between checks for new versions at remote URIs. If null, the server does not check."""

    load_models_at_startup: bool = True
    """Load all models at startup. If false, clients load them through the repository API."""

    strict_readiness: bool = True
    """Be ready only if all models that were found at startup are. If false, one ready model is enough."""

    empty_registry_readiness: bool = True
    """Be ready without any model. Set it to false if models arrive later, and traffic should wait for
    them."""

    default_model: str | None = None
    """Model for requests to text routes that name none, such as `/generate`. Set it if you serve several
    models that return text. If null: the only one."""

    model_load_timeout: float = Field(default=600.0, gt=0)
    """Seconds that a model may take to load. Increase it if your models are large."""

    strict: bool = False
    """Exit with an error if a model fails to load at startup, a setting is unknown or a plug-in cannot be
    used."""

    allow_open_repository: bool | Literal["local"] = False
    """Allow the repository API without keys if the server listens beyond loopback: for all clients, or for
    `"local"` ones, in the same pod or on this machine, whose requests no proxy forwarded. Default: `"local"`
    if the command `mlserver` or a variable `MLSERVER_*` configures the server, otherwise false."""

    @model_validator(mode="after")
    def _open_repository_in_pod(self) -> Self:
        """Let the agent of Seldon Core load models, which calls MLServer from another container of the pod."""
        if "allow_open_repository" not in self.model_fields_set and replaces_mlserver():
            self.allow_open_repository = "local"
        return self

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_capitals(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @property
    def lowest_log_level(self) -> str:
        """The level from which log lines are written."""
        return self.log_level or ("DEBUG" if self.debug else "INFO")

    @field_validator("root_path")
    @classmethod
    def _as_prefix(cls, value: str) -> str:
        return f"/{value.strip('/')}".rstrip("/")
