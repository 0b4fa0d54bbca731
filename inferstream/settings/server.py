"""Settings of the server: `settings.json`, then the environment."""

from itertools import pairwise
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, PrivateAttr, field_validator

from .. import processors
from ..extensions import SETTINGS
from .dialects import INSTALLED_DIALECT
from .environment import MLSERVER_PREFIX, PREFIX, expanded
from .memory import MemorySettings
from .sections import Composed
from .served import ServedSettings, is_loopback
from .served import own_version as own_version

StatusProfile = Literal["default", "mlserver", "triton"]
"""The server whose status codes clients expect."""

MOST_BUCKETS = 100
"""Bounds of a histogram. Each is a series for each label value."""


def _private(name: str) -> Any:
    """A field by MLServer's name of the setting, which is private there, and by its environment variables."""
    spellings = AliasChoices(f"_{name}", f"{PREFIX}{name}".upper(), f"{MLSERVER_PREFIX}{name}".upper())
    return Field(default=None, alias=f"_{name}", validation_alias=spellings)


def _other_name(name: str) -> property:
    """An attribute that reads and writes the field `name`."""
    return property(attrgetter(name), lambda settings, value: setattr(settings, name, value))


class CoreSettings(ServedSettings, MemorySettings, Composed):
    """The fields of `settings.json`. Flags take precedence over the file, the file over the environment."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())
    _group = SETTINGS

    max_body_bytes: int = Field(default=64 * 2**20, ge=1)
    """Largest request body, also after decompression."""

    max_json_bytes: int | None = Field(default=None, ge=1)
    """Largest JSON of a request in bytes. If absent: `max_body_bytes`."""

    max_json_depth: int = Field(default=128, ge=1)
    """Levels of lists and objects in the JSON of a request."""

    max_json_values: int = Field(default=1_000_000, ge=1)
    """Keys, strings, lists and literals in the JSON of a request, where an object counts eight times, and elements of
    its BYTES tensors; numbers count in JSON texts and lists of functions."""

    max_inflight_bytes: int = Field(default=2**30, ge=1)
    """Bytes of request bodies, and of decoded tensors that wait, in all front ends together; beyond them requests get a
    503."""

    grpc_max_message_length: int | None = None
    """Largest gRPC message in bytes, both ways."""

    gzip_enabled: bool = True
    """Compress large responses for clients that ask for it."""

    gzip_min_bytes: int = Field(default=500, ge=0)
    """Responses of fewer bytes are never compressed."""

    max_connections: int = Field(default=4096, ge=1)
    """Open HTTP connections; one more gets a 503, except for liveness and readiness."""

    header_timeout: float = Field(default=10.0, gt=0)
    """Seconds a client may take to send its headers."""

    body_timeout: float = Field(default=60.0, gt=0)
    """Seconds a client may take to send its body."""

    request_timeout: float | None = Field(default=300.0, ge=0)
    """Seconds a call may take, waiting included; null or 0 for no limit. The default limits no streams and no messages
    of Kafka."""

    sse_heartbeat: float = Field(default=15.0, ge=0)
    """Seconds of silence before an SSE comment; 0 is never."""

    resumable_streams: bool = False
    """Make all event streams resumable; if not, those whose clients ask for it."""

    resume_timeout: float = Field(default=10.0, gt=0)
    """Seconds for which a resumable stream waits for its client to come back."""

    resume_items: int = Field(default=16384, ge=1)
    """Events that a resumable stream records."""

    resume_bytes: int = Field(default=4 * 2**20, ge=1)
    """Bytes of memory for the events that a resumable stream records: their own and 41 for each."""

    max_held_streams: int = Field(default=128, ge=0)
    """Resumable streams at once in each front end; one more gets a 429."""

    get_streams: bool | None = None
    """Serve streams of `generate_stream` to GET, for EventSource; null: on loopback and over TLS only."""

    credential_headers: list[str] = ["authorization", "proxy-authorization", "x-api-key"]
    """Headers that tell clients apart: who resumes or cancels a request sends the same ones."""

    stream_stall_timeout: float = Field(default=60.0, gt=0)
    """Seconds a stream's reader may read nothing."""

    websocket_silence_timeout: float = Field(default=30.0, ge=0)
    """Seconds without a sign of life that end a WebSocket; 0 is never."""

    grpc_stream_dialect: Annotated[str, INSTALLED_DIALECT] = "mlserver"
    """Response type of ModelStreamInfer when the client gives no hint: `mlserver`, or another one that is installed, as
    `triton`."""

    grpc_engine: Literal["native", "auto", "grpcio"] = "native"
    """What serves the gRPC port: HTTP/2 of the server's own. `auto` is the same with a warning; `grpcio` ends the
    start."""

    grpc_reflection: bool = True
    """Serve gRPC reflection."""

    grpc_web: bool = True
    """Serve gRPC-Web on the REST port, for browsers."""

    request_ids: Literal["echo", "always"] = "echo"
    """Which responses have an `X-Request-Id`: those to requests that have one, or all."""

    status_profile: StatusProfile = "default"
    """Whose status codes to use where servers differ. `mlserver` includes its error for unknown models."""

    middleware: list[str] = Field(default_factory=list)
    """Import paths of `async def` functions around every call, outermost first."""

    show_errors: Literal["auto", "never"] = "auto"
    """`auto` shows exceptions and the frames of your code to clients of this machine, without a proxy, where the server
    runs with `--reload` or `debug`."""

    access_log: bool | None = None
    """Log one line per call, on the logger `inferstream.access`; null does so in a terminal."""

    shutdown_grace: float = Field(default=20.0, ge=0)
    """Seconds calls in progress may take to finish."""

    shutdown_delay: float = Field(default=0.0, ge=0)
    """Seconds to continue to serve, not ready, before calls are refused."""

    metrics_endpoint: str | None = "/metrics"
    """Path of the metrics; null or empty for none."""

    metrics_rest_server_prefix: str = "rest_server"
    """Prefix of the REST metrics' names."""

    metrics_buckets: dict[Literal["requests", "first_item", "between_items"], tuple[float, ...]] = Field(
        default_factory=dict
    )
    """Upper bounds in seconds of the buckets of histograms: `requests` (calls, HTTP requests and RPCs), `first_item`
    and `between_items` (streams); 0.0001 to 60 by default."""

    metrics_dir: str | None = None
    """Folder for metrics that model code in workers makes; a temporary one if absent."""

    use_structured_logging: bool = False
    """Log one JSON object per line."""

    logging_settings: str | dict[str, Any] | None = None
    """Logging configuration, file or inline."""

    keep_freed_memory: bool = True
    """Use the memory of freed tensors again, without a return to the kernel; needs glibc."""

    parallel_workers: int = Field(default=0, ge=0)
    """Worker processes; 0 runs models in the server process."""

    parallel_workers_timeout: int = Field(default=5, ge=0)
    """Seconds a worker may take to stop."""

    worker_heartbeat: float = Field(default=1.0, ge=0)
    """Seconds from one heartbeat of a worker process to the next. One that misses ten, because a signal has stopped it,
    is replaced; 0 is never."""

    environments_dir: str = Field(default_factory=lambda: str(Path.cwd() / ".envs"))
    """Folder for unpacked environments."""

    cache_enabled: bool = False
    """Response cache, for models that enable it too."""

    cache_size: int = Field(default=100, ge=1)
    """Responses in the response cache, of all models."""

    cache_max_bytes: int = Field(default=64 * 2**20, ge=1)
    """Bytes of responses in the response cache."""

    cache_ttl: float | None = Field(default=None, gt=0)
    """Seconds a response may be reused; unlimited if absent."""

    custom_rest_server_settings: dict[str, Any] | None = _private("custom_rest_server_settings")
    """Options of the REST port, with uvicorn's names, certificates among them."""

    custom_metrics_server_settings: dict[str, Any] | None = _private("custom_metrics_server_settings")
    """The same for the metrics port."""

    custom_grpc_server_settings: dict[str, Any] | None = _private("custom_grpc_server_settings")
    """Channel arguments of gRPC (`grpc.…`), and certificates."""

    _paths = field_validator(
        "model_repository_root",
        "metrics_dir",
        "environments_dir",
        "logging_settings",
    )(expanded)

    # Programs written for MLServer assign these.
    _custom_rest_server_settings = _other_name("custom_rest_server_settings")
    _custom_metrics_server_settings = _other_name("custom_metrics_server_settings")
    _custom_grpc_server_settings = _other_name("custom_grpc_server_settings")

    _reloads: bool = PrivateAttr(default=False)
    """Whether models are reloaded when their files change, which is for development."""

    @property
    def one_port(self) -> bool:
        """Whether REST's port serves gRPC too. Two free ports (0 and 0) are two."""
        return self.grpc_port is None or 0 != self.grpc_port == self.http_port

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def most_workers(self) -> int:
        """Worker processes that models without trust may start: one for each processor, or `parallel_workers`."""
        return max(processors.available(), self.parallel_workers)

    @property
    def shows_errors(self) -> bool:
        """Whether clients near the server see the exceptions of models."""
        return self.show_errors == "auto" and (self.debug or self._reloads)

    @field_validator("metrics_buckets")
    @classmethod
    def _ascending(cls, value: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        for name, bounds in value.items():
            if not 1 <= len(bounds) <= MOST_BUCKETS:
                raise ValueError(f'"{name}" needs 1 to {MOST_BUCKETS} bounds')
            if not all(isfinite(bound) and bound > 0 for bound in bounds):
                raise ValueError(f'the bounds of "{name}" must be positive numbers')
            if any(low >= high for low, high in pairwise(bounds)):
                raise ValueError(f'the bounds of "{name}" must ascend')
        return value

    @field_validator("metrics_endpoint")
    @classmethod
    def _empty_is_none(cls, value: str | None) -> str | None:
        return value or None
