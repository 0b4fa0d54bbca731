"""Settings of the server: `settings.json`, then the environment."""

from itertools import pairwise
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, PrivateAttr, field_validator

from .. import processors
from ..extensions.entries import SETTINGS
from .dialects import INSTALLED_DIALECT
from .environment import MLSERVER_PREFIX, PREFIX, expand_path
from .identity import ServedSettings, is_loopback
from .identity import own_version as own_version
from .memory import MemorySettings
from .sections import Composed

StatusProfile = Literal["default", "mlserver", "triton"]
"""The server whose status codes to use."""

MAX_BUCKETS = 100
"""Maximum number of bounds in a histogram. Each bound is a series for each label value."""


def _private(name: str) -> Any:
    """A field with the private name that the setting has in MLServer, and its environment variables."""
    spellings = AliasChoices(f"_{name}", f"{PREFIX}{name}".upper(), f"{MLSERVER_PREFIX}{name}".upper())
    return Field(default=None, alias=f"_{name}", validation_alias=spellings)


def _path_of_trusted_runtimes() -> Any:
    """A field whose environment variables end in `_FILE`."""
    names = [
        f"{prefix}TRUSTED_RUNTIMES{end}" for end in ("_FILE", "") for prefix in (PREFIX, MLSERVER_PREFIX)
    ]
    spellings = AliasChoices("trusted_runtimes", "trusted_runtimes_file", *names)
    return Field(default=None, alias="trusted_runtimes", validation_alias=spellings)


def _other_name(name: str) -> property:
    """A property that reads and writes the field `name`."""
    return property(attrgetter(name), lambda settings, value: setattr(settings, name, value))


class CoreSettings(ServedSettings, MemorySettings, Composed):
    """The fields of `settings.json`. Flags take precedence over the file, the file over the environment."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())
    _group = SETTINGS

    max_body_bytes: int = Field(default=64 * 2**20, ge=1)
    """Maximum size of a request body in bytes, also after decompression."""

    max_json_bytes: int | None = Field(default=None, ge=1)
    """Maximum size of the JSON in a request, in bytes. If null: `max_body_bytes`."""

    max_json_depth: int = Field(default=128, ge=1)
    """Maximum nesting depth of the JSON in a request."""

    max_json_values: int = Field(default=1_000_000, ge=1)
    """Maximum number of JSON values and elements of BYTES tensors in a request: keys, strings, lists and
    literals count as one, objects as eight. Numbers count only in JSON strings and in list arguments of
    functions."""

    max_inflight_bytes: int = Field(default=2**30, ge=1)
    """Maximum bytes of request bodies and of decoded tensors in the queue, for all front-end processes
    together. Requests above the limit get status 503."""

    grpc_max_message_length: int | None = None
    """Maximum size of gRPC messages in bytes, in both directions. If null, requests are limited by
    `max_body_bytes`, and responses are not limited."""

    gzip_enabled: bool = True
    """Compress large responses if the client accepts gzip."""

    gzip_min_bytes: int = Field(default=500, ge=0)
    """Minimum size of a response to compress, in bytes."""

    max_connections: int = Field(default=4096, ge=1)
    """Maximum number of open HTTP connections. Additional connections get status 503, except for liveness and
    readiness."""

    header_timeout: float = Field(default=10.0, gt=0)
    """Seconds that a client may take to send the headers of a request."""

    body_timeout: float = Field(default=60.0, gt=0)
    """Seconds that a client may take to send the body of a request."""

    request_timeout: float | None = Field(default=300.0, ge=0)
    """Seconds that a call may take, including the time in the queue, or 0 or null for no limit. If you do not
    set it, streams and Kafka messages are not limited."""

    sse_heartbeat: float = Field(default=15.0, ge=0)
    """Seconds without an event after which an event stream gets a comment, or 0 for no comments."""

    resumable_streams: bool = False
    """Make all event streams resumable. If false, clients can request it per stream."""

    resume_timeout: float = Field(default=10.0, gt=0)
    """Seconds that a resumable stream waits for its client to reconnect."""

    resume_items: int = Field(default=16384, ge=1)
    """Maximum number of recorded events of a resumable stream."""

    resume_bytes: int = Field(default=4 * 2**20, ge=1)
    """Maximum size of the recorded events of a resumable stream, in bytes, with an overhead of 41 bytes per
    event."""

    max_held_streams: int = Field(default=128, ge=0)
    """Maximum number of resumable streams in each front-end process. Additional streams get status 429."""

    get_streams: bool | None = None
    """Serve `generate_stream` over GET, for `EventSource`. If null: only on loopback and over TLS."""

    credential_headers: list[str] = ["authorization", "proxy-authorization", "x-api-key"]
    """Headers that identify a client. To resume or cancel a request, a client must send the same values
    again."""

    stream_stall_timeout: float = Field(default=60.0, gt=0)
    """Seconds after which a client that does not read its stream is disconnected."""

    websocket_silence_timeout: float = Field(default=30.0, ge=0)
    """Seconds after which a WebSocket client that sends nothing is disconnected, or 0 for no limit. The
    server sends a ping after half of this time."""

    grpc_stream_dialect: Annotated[str, INSTALLED_DIALECT] = "mlserver"
    """Response type of `ModelStreamInfer` for clients that do not select one: `mlserver`, or another
    installed dialect, such as `triton`."""

    grpc_engine: Literal["native", "auto", "grpcio"] = "native"
    """Implementation of the gRPC port. `auto` is the same as `native`, with a warning, and `grpcio` is an
    error, because it is no longer supported."""

    grpc_reflection: bool = True
    """Serve gRPC reflection."""

    grpc_web: bool = True
    """Serve gRPC-Web on the HTTP port, for browsers."""

    request_ids: Literal["echo", "always"] = "echo"
    """Add `X-Request-Id` to responses: `echo` if the request has one, `always` also with a generated id."""

    status_profile: StatusProfile = "default"
    """Server whose status codes to use where they differ. `mlserver` also uses its error for unknown models,
    and `triton` makes `strict` the default of `input_validation`."""

    middleware: list[str] = Field(default_factory=list)
    """Import paths of your `async def` functions that wrap every call, outermost first."""

    trusted_runtimes_file: str | None = _path_of_trusted_runtimes()
    """Path of the JSON list of classes that models may use, if others upload your models. If null:
    `/etc/inferstream/trusted-runtimes.json` or `/etc/mlserver/trusted-runtimes.json`, if it exists."""

    show_errors: Literal["auto", "never"] = "auto"
    """`auto` shows exceptions and stack frames of model code to clients on the same machine, if the server
    runs with `--reload` or `debug`. Clients behind a proxy never get them."""

    access_log: bool | None = None
    """Log one line per call to the logger `inferstream.access`. If null: only in a terminal."""

    shutdown_grace: float = Field(default=20.0, ge=0)
    """Seconds that calls in progress may take to finish at shutdown."""

    shutdown_delay: float = Field(default=0.0, ge=0)
    """Seconds at shutdown for which the server still serves calls, but is not ready."""

    metrics_endpoint: str | None = "/metrics"
    """Path of the metrics endpoint, or null or an empty string to turn it off."""

    metrics_rest_server_prefix: str = "rest_server"
    """Prefix of the names of REST metrics."""

    metrics_buckets: dict[Literal["requests", "first_item", "between_items"], tuple[float, ...]] = Field(
        default_factory=dict
    )
    """Upper bounds of histogram buckets in seconds, for `requests` (calls, HTTP requests and RPCs),
    `first_item` and `between_items` (streams). Default: 0.0001 to 60."""

    metrics_dir: str | None = None
    """Folder for the metrics of model code in worker processes. If null: a temporary folder."""

    use_structured_logging: bool = False
    """Log one JSON object per line."""

    logging_settings: str | dict[str, Any] | None = None
    """Your logging configuration: an object for `logging.config.dictConfig`, or the path of a file."""

    keep_freed_memory: bool = True
    """Reuse the memory of freed tensors instead of returning it to the kernel. Requires glibc."""

    parallel_workers: int = Field(default=0, ge=0)
    """Number of worker processes, or 0 to run models in the server process."""

    parallel_workers_timeout: int = Field(default=5, ge=0)
    """Seconds that a worker process may take to stop."""

    worker_heartbeat: float = Field(default=1.0, ge=0)
    """Seconds between two heartbeats of a worker process, or 0 for no heartbeats. A process that a signal has
    stopped for ten heartbeats is replaced."""

    environments_dir: str = Field(default_factory=lambda: str(Path.cwd() / ".envs"))
    """Folder for unpacked Python environments. Default: `.envs` in the working folder."""

    cache_enabled: bool = False
    """Enable the response cache for models whose `cache_enabled` is true."""

    cache_size: int = Field(default=100, ge=1)
    """Maximum number of responses in the response cache, for all models together."""

    cache_max_bytes: int = Field(default=64 * 2**20, ge=1)
    """Maximum size of the response cache in bytes."""

    cache_ttl: float | None = Field(default=None, gt=0)
    """Seconds for which a cached response is valid. If null: no limit."""

    custom_rest_server_settings: dict[str, Any] | None = _private("custom_rest_server_settings")
    """Options of the HTTP port, with the names of uvicorn options, for example for your TLS certificates."""

    custom_metrics_server_settings: dict[str, Any] | None = _private("custom_metrics_server_settings")
    """Options of the metrics port, like `_custom_rest_server_settings`."""

    custom_grpc_server_settings: dict[str, Any] | None = _private("custom_grpc_server_settings")
    """Channel arguments (`grpc.…`) and TLS options of the gRPC port."""

    _paths = field_validator(
        "model_repository_root",
        "metrics_dir",
        "environments_dir",
        "logging_settings",
        "trusted_runtimes_file",
    )(expand_path)

    # Programs written for MLServer assign these.
    _custom_rest_server_settings = _other_name("custom_rest_server_settings")
    _custom_metrics_server_settings = _other_name("custom_metrics_server_settings")
    _custom_grpc_server_settings = _other_name("custom_grpc_server_settings")

    _reloads: bool = PrivateAttr(default=False)
    """Whether models are reloaded when their files change (`--reload`)."""

    @property
    def one_port(self) -> bool:
        """Whether the HTTP port also serves gRPC. If both ports are 0, the server chooses two different
        ports."""
        return self.grpc_port is None or 0 != self.grpc_port == self.http_port

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def most_workers(self) -> int:
        """Maximum number of worker processes for untrusted models: one per processor, or `parallel_workers`
        if that is more."""
        return max(processors.available(), self.parallel_workers)

    @property
    def shows_errors(self) -> bool:
        """Whether clients on this machine get the exceptions of models."""
        return self.show_errors == "auto" and (self.debug or self._reloads)

    @field_validator("metrics_buckets")
    @classmethod
    def _ascending(cls, value: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        for name, bounds in value.items():
            if not 1 <= len(bounds) <= MAX_BUCKETS:
                raise ValueError(f'"{name}" needs 1 to {MAX_BUCKETS} bounds')
            if not all(isfinite(bound) and bound > 0 for bound in bounds):
                raise ValueError(f'the bounds of "{name}" must be positive numbers')
            if any(low >= high for low, high in pairwise(bounds)):
                raise ValueError(f'the bounds of "{name}" must ascend')
        return value

    @field_validator("metrics_endpoint")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value or None
