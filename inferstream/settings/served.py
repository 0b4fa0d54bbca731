"""Settings of what a server serves, and where."""

from functools import cache
from ipaddress import ip_address
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from .cors import CORSSettings
from .environment import EnvironmentModel


@cache
def own_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError, version  # late: it is slow to import

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

    server_name: str = "inferstream"
    """Shown in the server's metadata."""

    server_version: str = Field(default_factory=own_version)
    """Shown in the server's metadata."""

    extensions: list[str] = Field(default_factory=list)
    """Further extensions to name in metadata."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 opens it to the network."""

    http_port: int = Field(default=8080, ge=0, le=65535)
    """Port of REST, SSE and WebSocket."""

    grpc_port: int | None = Field(default=8081, ge=0, le=65535)
    """Port of gRPC; null, or the same as http_port, for one port that serves both."""

    metrics_port: int = Field(default=8082, ge=0, le=65535)
    """Port of the metrics endpoint."""

    root_path: str = ""
    """Path prefix below which a proxy has the server, whether it strips the prefix or not."""

    cors_settings: CORSSettings | None = None
    """Cross-origin rules for browsers."""

    allowed_hosts: list[str] = Field(default_factory=list)
    """Further values of `Host` that lead to a server on loopback; `.example.org` is every name below it, `*` any.
    Beyond loopback every value does."""

    model_repository_root: str = "."
    """Folder of models; the command line's argument wins."""

    model_repository_implementation: str | None = None
    """Import path of a ModelRepository."""

    model_repository_implementation_args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of that ModelRepository."""

    repository_poll: float | None = Field(default=None, gt=0)
    """Seconds from one look for new versions at remote URIs to the next."""

    load_models_at_startup: bool = True
    """Load every model found before serving."""

    default_model: str | None = None
    """Model of the text routes that name none (`/generate`). If absent: the only one that returns texts, if there is
    one."""

    model_load_timeout: float = Field(default=600.0, gt=0)
    """Seconds a model may take to load."""

    strict: bool = False
    """End the process when a model fails to load at start, or what another package brings."""

    allow_open_repository: bool = False
    """Open the repository API beyond loopback."""

    @field_validator("root_path")
    @classmethod
    def _as_prefix(cls, value: str) -> str:
        return f"/{value.strip('/')}".rstrip("/")
