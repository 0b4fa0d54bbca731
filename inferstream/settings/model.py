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

from ..compat.moved_modules import current_path
from ..extensions.entries import MODEL_SETTINGS
from ..imports.implementation import resolve
from ..types import MetadataTensor
from .dialects import INSTALLED_DIALECT
from .environment import MLSERVER_MODEL_PREFIX, MODEL_PREFIX, EnvironmentModel, expand_path
from .provided import ProvidedModel, import_path, is_importable
from .sections import Composed

if TYPE_CHECKING:
    from .server import CoreSettings

SLOWEST = 0.001
"""The minimum of `items_per_second`, because a stream occupies a slot of its model until it ends."""

InputValidation = Literal["auto", "declared", "strict", "off"]


class ModelParameters(EnvironmentModel):
    """The object `parameters` in `model-settings.json`. Undeclared keys become attributes that the runtime
    can read."""

    env_prefixes = (MODEL_PREFIX, MLSERVER_MODEL_PREFIX)

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    uri: str | None = None
    """File, folder or remote URI of the model's artefacts. If null: the folder of the settings file."""

    version: str | None = None
    """Version that clients address as /versions/{version}."""

    environment_path: str | None = None
    """Folder of an unpacked Python environment, relative to the settings file."""

    environment_tarball: str | None = None
    """Archive of your Python environment, relative to the settings file."""

    inference_pool_gid: str | None = None
    """Name of the worker pool that runs the model. Models with the same name share a pool."""

    autogenerate_inference_pool_gid: bool = False
    """Run the model in a separate worker pool."""

    format: str | None = None
    """Format of the artefacts, for runtimes that support several."""

    content_type: str | None = None
    """Default content type for decoding requests."""

    extra: dict[str, Any] | None = Field(default_factory=dict)
    """Runtime-specific settings."""

    _paths = field_validator("uri", "environment_path", "environment_tarball")(expand_path)

    @field_validator("version", mode="before")
    @classmethod
    def _none_if_empty(cls, value: Any) -> Any:
        """Treat the version of a variable that is set but empty as no version."""
        return None if value == "" else value

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
        # pydantic does not add the prefix to the variable of a field with an alias.
        validation_alias=AliasChoices(
            "implementation", f"{MODEL_PREFIX}IMPLEMENTATION", f"{MLSERVER_MODEL_PREFIX}IMPLEMENTATION"
        ),
    )
    """Import path of your MLModel subclass, or the name of a built-in runtime, such as `sklearn`."""

    name: str = ""
    """Model name that clients use. If empty: the name of the folder."""

    platform: str = ""
    """Platform in the model metadata."""

    versions: list[str] = Field(default_factory=list)
    """Framework versions in the model metadata."""

    inputs: list[MetadataTensor] = Field(default_factory=list)
    """Input tensors in the model metadata."""

    outputs: list[MetadataTensor] = Field(default_factory=list)
    """Output tensors in the model metadata."""

    parallel_workers: int | None = None
    """Number of worker processes for this model, or 0 to run it in the server process. If null: the server's
    `parallel_workers`, which several models share."""

    warm_workers: bool = False
    """Accepted for compatibility with MLServer, without effect."""

    max_batch_size: int = Field(default=0, ge=0)
    """Maximum number of requests in a batch. Batching is off unless this is above 1 and `max_batch_time` is
    above 0."""

    max_batch_time: float = Field(default=0.0, ge=0)
    """Seconds to wait for a batch to fill, or 0 to turn batching off."""

    cache_enabled: bool = False
    """Cache responses of this model, if the server's `cache_enabled` is true. Set this if your model
    always returns the same response for the same request."""

    cache_ttl: float | None = Field(default=None, gt=0)
    """Seconds for which a cached response is valid. If null: the server's `cache_ttl`."""

    parameters: ModelParameters | None = None
    """Artefacts, version, environment and runtime-specific settings."""

    trust_remote_code: bool = False
    """Allow code and pickle files from a remote `parameters.uri`. Set this only if you trust its owner.
    If false, these files are skipped."""

    max_concurrency: int | None = Field(default=None, ge=1)
    """Maximum number of calls that run at the same time. If null: derived from the model's threads or
    streams."""

    max_queue: int = Field(default=1024, ge=0)
    """Maximum number of calls in the queue."""

    max_active: int = Field(default=32, ge=1)
    """Maximum number of streams of a step model that advance together, in each process."""

    default_priority: int = Field(default=5, ge=1, le=9)
    """Priority of calls that do not set one, from 1 (first) to 9 (last)."""

    priority_aging: float = Field(default=1.0, ge=0)
    """Seconds of waiting that compensate for one level of priority, or 0 to ignore priorities."""

    threads: int | None = Field(default=None, ge=1)
    """Number of threads for your blocking (`def`) model code. If null: 64, or one per core for most
    built-in runtimes."""

    loop: Literal["own", "server"] | None = None
    """Event loop for your `async def` model code: `own`, in a separate thread, or `server`. If null:
    `own` for a class, `server` for a function of an app."""

    worker_concurrency: int | None = Field(default=None, ge=1)
    """Maximum number of calls that run at the same time in one worker process."""

    devices: list[str] | Literal["auto"] = Field(default_factory=list)
    """`CUDA_VISIBLE_DEVICES` for each worker process, in turn. `auto` uses all devices that the NVIDIA driver
    lists."""

    load: Literal["start", "demand"] = "start"
    """Load the model at startup (`start`) or with its first call (`demand`)."""

    pinned: bool = False
    """Keep the model in memory, even if it is idle or other models need the memory."""

    stream_buffer: int = Field(default=32, ge=1)
    """Maximum number of responses that a stream in a worker process can be ahead of its reader."""

    items_per_second: float | None = Field(default=None, ge=SLOWEST, allow_inf_nan=False)
    """Maximum number of responses per second in a stream, at least 0.001. If null: no limit."""

    resumable_streams: bool | None = None
    """Make all event streams of the model resumable. If null: the server's `resumable_streams`."""

    request_timeout: float | None = Field(default=None, ge=0)
    """Seconds that a call may take, including the time in the queue, or 0 or null for no limit. If absent:
    the server's `request_timeout`."""

    input_validation: InputValidation = "auto"
    """How strictly requests and responses are compared with the declared `inputs` and `outputs`. `auto` is
    `off` for models written for MLServer, `strict` for a `config.pbtxt` and `declared` for other models."""

    grpc_stream_dialect: Annotated[str | None, INSTALLED_DIALECT] = None
    """Response type of `ModelStreamInfer` for clients that do not select one: `mlserver`, or another
    installed dialect, such as `triton`. If null: the server's `grpc_stream_dialect`."""

    calls: list[str] = Field(default_factory=list)
    """Names of the models that your model code calls. The model then runs in the server process, but the
    models that it calls can run in workers."""

    def __init__(self, **values: Any) -> None:
        source = values.pop("_source", None)
        super().__init__(**values)
        self._source = source
        if isinstance(implementation := values.get("implementation"), type):
            self.implementation = implementation

    @classmethod
    def parse_file(cls, path: str | Path, **_: Any) -> Self:
        """Return the settings in the JSON file at `path`. Relative paths in the file are relative to its
        folder."""
        return cls.model_validate({**json.loads(Path(path).read_bytes()), "_source": str(path)})

    @model_validator(mode="before")
    @classmethod
    def _accept_class(cls, values: Any) -> Any:
        """Accept a class in place of its import path."""
        if isinstance(values, dict) and isinstance(values.get("implementation"), type):
            values = {**values, "implementation": import_path(values["implementation"])}
        return values

    @field_validator("implementation_")
    @classmethod
    def _accept_other_names(cls, path: str) -> str:
        """Accept the name of a runtime, such as `sklearn`, and the former import path of a moved runtime."""
        return current_path(path)

    @model_validator(mode="after")
    def _run_where_models_are(self) -> Self:
        """Run a model that calls other models in the server process, which can reach them."""
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
        """Accept `lenient`, the former name of `declared`."""
        return "declared" if value == "lenient" else value

    @property
    def implementation(self) -> Any:
        """The model class, the function that is the model, or the class of the model object. Raises
        InvalidSettings if it cannot be found."""
        if (provided := self.provided) is not None:
            return provided if isinstance(provided, type) else type(provided)
        return resolve(self.implementation_, self._source)

    @implementation.setter
    def implementation(self, value: type[Any] | str) -> None:
        self.implementation_ = value if isinstance(value, str) else import_path(value)
        provided = isinstance(value, type) and not is_importable(value)
        self._provided = ProvidedModel(value) if provided else None

    def serve_object(self, model: object) -> None:
        """Serve this object in this process, instead of a new instance of a class."""
        self.implementation_ = import_path(type(model))
        self._provided = ProvidedModel(model)

    def serve_class(self, model: type[Any], path: str | None) -> None:
        """Serve this class. Other processes import it from `path`, which is None if they cannot import it."""
        self.implementation_ = path or import_path(model)
        self._provided = ProvidedModel(model, importable=path is not None)

    @property
    def importable(self) -> bool:
        """Whether other processes can import the model from its path."""
        return self._provided is None or self._provided.importable

    @property
    def provided(self) -> Any:
        """The model object or class that the program passed in. None if the settings only have an import
        path."""
        return None if self._provided is None else self._provided.model

    @property
    def version(self) -> str | None:
        return self.parameters.version if self.parameters is not None else None

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The model's `config.pbtxt`, completed by its code. Empty if the model has none."""
        return self._completed_configuration or self.written_configuration

    @configuration.setter
    def configuration(self, config: Mapping[str, Any]) -> None:
        self._completed_configuration = config

    @property
    def written_configuration(self) -> Mapping[str, Any]:
        """The model's `config.pbtxt` as written. Each load of the model completes a new copy."""
        config: Mapping[str, Any] = getattr(self.parameters, "model_configuration", None) or {}
        return config

    def may_leave(self, server: "CoreSettings") -> bool:
        """Whether the model can be unloaded between calls, in its own worker: if memory is limited or it
        loads on demand."""
        return self.parallel_workers != 0 and (self.load == "demand" or server.limits_memory)

    @property
    def recognised(self) -> str | None:
        """The file that identifies the model in a folder without a settings file. None if the folder has
        one."""
        return self._recognised

    @property
    def faults(self) -> tuple[str, ...]:
        """Errors in the settings file that do not prevent the model from loading."""
        return self._faults

    @property
    def source(self) -> str | None:
        """Path of the settings file. None if the settings do not come from a file."""
        return self._source
