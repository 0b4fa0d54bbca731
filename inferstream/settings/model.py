"""Settings of one model: `model-settings.json`, then the environment."""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from ..extensions import MODEL_SETTINGS
from ..imports.implementation import resolve
from ..types import MetadataTensor
from .dialects import INSTALLED_DIALECT
from .environment import MLSERVER_MODEL_PREFIX, MODEL_PREFIX, EnvironmentModel, expanded
from .provided import ProvidedModel, import_path, is_importable
from .sections import Composed

if TYPE_CHECKING:
    from .server import CoreSettings

SLOWEST = 0.001
"""The lowest `items_per_second`. A stream holds a place of its model until its end."""

InputValidation = Literal["auto", "declared", "strict", "off"]


class ModelParameters(EnvironmentModel):
    """`parameters` of a model's settings. Undeclared keys become attributes, for the runtime."""

    env_prefixes = (MODEL_PREFIX, MLSERVER_MODEL_PREFIX)

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    uri: str | None = None
    """File or folder of the model's artefacts, or its remote URI; the settings file's folder if absent."""

    version: str | None = None
    """Version that clients address as /versions/{version}."""

    environment_path: str | None = None
    """Folder of an unpacked Python environment, relative to the settings file."""

    environment_tarball: str | None = None
    """Packed Python environment, relative to the settings file."""

    inference_pool_gid: str | None = None
    """Name of the worker pool to run in."""

    autogenerate_inference_pool_gid: bool = False
    """Run in a worker pool of its own."""

    format: str | None = None
    """Format of the artefacts, for runtimes that know several."""

    content_type: str | None = None
    """Content type that decodes requests naming none."""

    extra: dict[str, Any] | None = Field(default_factory=dict)
    """Runtime-specific settings."""

    _paths = field_validator("uri", "environment_path", "environment_tarball")(expanded)

    @model_validator(mode="after")
    def _autogenerate(self) -> Self:
        if self.autogenerate_inference_pool_gid and self.inference_pool_gid is None:
            self.inference_pool_gid = str(uuid.uuid4())
        return self


class CoreModelSettings(Composed):
    """The fields of `model-settings.json`. The file takes precedence over the environment."""

    env_prefixes = (MODEL_PREFIX, MLSERVER_MODEL_PREFIX)

    model_config = ConfigDict(extra="ignore", protected_namespaces=(), populate_by_name=True)
    _group = MODEL_SETTINGS

    _source: str | None = PrivateAttr(default=None)
    _recognised: str | None = PrivateAttr(default=None)
    _faults: tuple[str, ...] = PrivateAttr(default=())
    _completed_configuration: Mapping[str, Any] | None = PrivateAttr(default=None)
    _provided: ProvidedModel | None = PrivateAttr(default=None)
    implementation_: str = Field(
        alias="implementation",
        # pydantic adds no prefix to the variable of a field with an alias.
        validation_alias=AliasChoices(
            "implementation", f"{MODEL_PREFIX}IMPLEMENTATION", f"{MLSERVER_MODEL_PREFIX}IMPLEMENTATION"
        ),
    )
    """Import path of the MLModel subclass."""

    name: str = ""
    """Name that clients address; the folder's name if empty."""

    platform: str = ""
    """Shown in the model's metadata."""

    versions: list[str] = Field(default_factory=list)
    """Versions of the framework, shown in metadata."""

    inputs: list[MetadataTensor] = Field(default_factory=list)
    """Declared inputs."""

    outputs: list[MetadataTensor] = Field(default_factory=list)
    """Declared outputs."""

    parallel_workers: int | None = None
    """Worker processes of this model's own; 0 runs it in the server process."""

    warm_workers: bool = False
    """Accepted for compatibility; has never had an effect."""

    max_batch_size: int = Field(default=0, ge=0)
    """Requests in one batch; 0 or 1 switches batching off."""

    max_batch_time: float = Field(default=0.0, ge=0)
    """Seconds to wait for a batch to fill."""

    cache_enabled: bool = False
    """Use the response cache, if the server has one."""

    cache_ttl: float | None = Field(default=None, gt=0)
    """Seconds a response may be reused; the server's if absent."""

    parameters: ModelParameters | None = None
    """Artefacts, version and free settings."""

    trust_remote_code: bool = False
    """Let code and files that are unpickled come from a remote `parameters.uri`. Without it they are left out."""

    max_concurrency: int | None = Field(default=None, ge=1)
    """Calls that may run at once."""

    max_queue: int = Field(default=1024, ge=0)
    """Calls that may wait for their turn."""

    max_active: int = Field(default=32, ge=1)
    """Streams of a model with steps that advance together, in each process."""

    default_priority: int = Field(default=5, ge=1, le=9)
    """Priority of calls that name none: 1 goes first, 9 last."""

    priority_aging: float = Field(default=1.0, ge=0)
    """Seconds of waiting that one step of priority is worth; 0 ignores priorities."""

    threads: int | None = Field(default=None, ge=1)
    """Threads for blocking model code written `def`. If absent: 64; one for each core for a runtime's."""

    loop: Literal["own", "server"] | None = None
    """The event loop of its `async def` code: one of its own, in a thread, or the server's. If absent: its own for a
    class, the server's for a function of an app."""

    worker_concurrency: int | None = Field(default=None, ge=1)
    """Calls that may run at once in one worker process."""

    devices: list[str] | Literal["auto"] = Field(default_factory=list)
    """CUDA_VISIBLE_DEVICES of each worker process, in turn; `auto` is all that NVIDIA's driver lists."""

    load: Literal["start", "demand"] = "start"
    """When it loads: at the start of the server, or with its first call."""

    pinned: bool = False
    """Keep it in memory whatever other models need."""

    stream_buffer: int = Field(default=32, ge=1)
    """Responses a stream in a worker process may be ahead of its reader."""

    items_per_second: float | None = Field(default=None, ge=SLOWEST, allow_inf_nan=False)
    """Responses of a stream in a second, at most; 0.001 or more."""

    resumable_streams: bool | None = None
    """Whether clients may resume all its event streams. If absent: as the server's setting."""

    request_timeout: float | None = Field(default=None, ge=0)
    """Seconds a call may take, waiting included; null or 0 for no limit. If absent: the server's."""

    input_validation: InputValidation = "auto"
    """How tensors are checked against the model's declaration; `auto` is `off` for models written for MLServer and
    `declared` for others."""

    grpc_stream_dialect: Annotated[str | None, INSTALLED_DIALECT] = None
    """Response type of ModelStreamInfer when the client gives no hint: `mlserver`, or another one that is installed, as
    `triton`."""

    calls: list[str] = Field(default_factory=list)
    """Names of the models that its code calls. It runs in the server's process; they may have workers."""

    def __init__(self, **values: Any) -> None:
        source = values.pop("_source", None)
        super().__init__(**values)
        self._source = source
        if isinstance(implementation := values.get("implementation"), type):
            self.implementation = implementation

    @classmethod
    def parse_file(cls, path: str | Path, **_: Any) -> Self:
        """The settings in the JSON file at `path`. Relative paths in it start at the folder of the file."""
        return cls.model_validate({**json.loads(Path(path).read_bytes()), "_source": str(path)})

    @model_validator(mode="before")
    @classmethod
    def _accept_class(cls, values: Any) -> Any:
        """Accept the class itself in place of its import path."""
        if isinstance(values, dict) and isinstance(values.get("implementation"), type):
            values = {**values, "implementation": import_path(values["implementation"])}
        return values

    @model_validator(mode="after")
    def _run_where_models_are(self) -> Self:
        """Let a model that calls others run in the server's process, which has them."""
        if self.calls:
            parameters = self.parameters or ModelParameters()
            if self.parallel_workers or parameters.environment_path or parameters.environment_tarball:
                raise ValueError(
                    "a model with `calls` runs in the server's process, without parallel_workers or an environment; "
                    "the models that it calls may have them"
                )
            if self.load == "demand":
                raise ValueError(
                    "a model with `calls` loads at the start; the models that it calls may load on demand"
                )
            self.parallel_workers = 0
        return self

    @field_validator("input_validation", mode="before")
    @classmethod
    def _accept_lenient(cls, value: Any) -> Any:
        """Accept `lenient`, the name of `declared` in the first version."""
        return "declared" if value == "lenient" else value

    @property
    def implementation(self) -> Any:
        """The model's class, or the function that is the model. Raises InvalidSettings if there is none."""
        if (provided := self.provided) is not None:
            return provided if isinstance(provided, type) else type(provided)
        return resolve(self.implementation_, self._source)

    @implementation.setter
    def implementation(self, value: type[Any] | str) -> None:
        self.implementation_ = value if isinstance(value, str) else import_path(value)
        provided = isinstance(value, type) and not is_importable(value)
        self._provided = ProvidedModel(value) if provided else None

    def serve_object(self, model: object) -> None:
        """Serve this object, in this process, instead of a new instance of a class."""
        self.implementation_ = import_path(type(model))
        self._provided = ProvidedModel(model)

    def serve_class(self, model: type[Any], path: str | None) -> None:
        """Serve this class, which other processes import by `path`; None if they cannot."""
        self.implementation_ = path or import_path(model)
        self._provided = ProvidedModel(model, importable=path is not None)

    @property
    def importable(self) -> bool:
        """Whether other processes can import the model by its path."""
        return self._provided is None or self._provided.importable

    @property
    def provided(self) -> Any:
        """The model object or class of this program; None if only the path names it."""
        return None if self._provided is None else self._provided.model

    @property
    def version(self) -> str | None:
        return self.parameters.version if self.parameters is not None else None

    @property
    def configuration(self) -> Mapping[str, Any]:
        """What a `config.pbtxt` says of this model, and its code; empty where there is none."""
        return self._completed_configuration or self.written_configuration

    @configuration.setter
    def configuration(self, config: Mapping[str, Any]) -> None:
        self._completed_configuration = config

    @property
    def written_configuration(self) -> Mapping[str, Any]:
        """What the `config.pbtxt` alone says, which each load of the model's code completes anew."""
        config: Mapping[str, Any] = getattr(self.parameters, "model_configuration", None) or {}
        return config

    def may_leave(self, server: "CoreSettings") -> bool:
        """Whether it gets a worker of its own, which it can leave: where memory is limited, or it loads on demand."""
        return self.parallel_workers != 0 and (self.load == "demand" or server.limits_memory)

    @property
    def recognised(self) -> str | None:
        """The file that says which model a folder without settings is; None where settings say it."""
        return self._recognised

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong in the file of these settings and does not stop the model."""
        return self._faults

    @property
    def source(self) -> str | None:
        """Path of the file of these settings; None if they come from no file."""
        return self._source
