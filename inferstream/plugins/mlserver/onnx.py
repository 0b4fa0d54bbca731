"""The ONNX runtime with the outputs and settings of the `mlserver_onnx` package."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from inferstream.codecs import NumpyCodec, encode_response_output
from inferstream.errors import InvalidRequest
from inferstream.ext.settings import MLSERVER_MODEL_PREFIX, EnvironmentModel
from inferstream.ext.telemetry import get_logger
from inferstream.ext.values import Array
from inferstream.plugins.frameworks import onnx
from inferstream.plugins.frameworks.tensors import decode_arrays
from inferstream.types import InferenceRequest, InferenceResponse, RequestOutput

logger = get_logger("runtimes")

PREDICT_OUTPUT = "predict"
"""The name of the first output of the graph."""

HARMLESS_OPTIONS = frozenset(
    [
        *("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse"),
        *("execution_mode", "graph_optimization_level", "use_deterministic_compute"),
    ]
)
"""The session options that an untrusted repository may set. Others write files, start threads or fill the log."""


CODE_OPTIONS = ("provider_options", "run_options", "session_config", "session_config_entries")
"""The options that untrusted settings may not contain, because they can name libraries and files."""


class MLServerOnnxSettings(EnvironmentModel, onnx.OnnxSettings):
    """`parameters.extra`, with defaults from variables such as `MLSERVER_MODEL_ONNX_PROVIDERS`."""

    model_config = ConfigDict(extra="ignore")
    env_prefixes = (f"{MLSERVER_MODEL_PREFIX}ONNX_",)

    provider_options: dict[str, Any] | list[dict[str, Any]] = []
    """The options of a single provider, or of each provider."""
    session_options: dict[str, Any] = {}
    """Attributes of `onnxruntime.SessionOptions`."""
    session_config_entries: dict[str, Any] = {}
    run_options: dict[str, Any] = {}
    """Attributes of `onnxruntime.RunOptions`."""


class MLServerOnnxModel(onnx.OnnxModel):
    """Returns the first output of the graph as `predict`, and the others only on request."""

    permitted_call = onnx.OnnxModel.permitted_call._replace(
        settings=onnx.OnnxModel.permitted_call.settings | {"session_options"}
    )

    def open(self, path: Path) -> Any:
        for option in self._find_code_options():
            self._refuse_code(Path(self.settings.source or ""), option)
        settings = self._validate_settings(MLServerOnnxSettings)
        onnxruntime = self._import("onnxruntime", "onnx")
        self._run_options = self._set_options("run_options", onnxruntime.RunOptions(), settings.run_options)
        options = self._session_options(onnxruntime, settings)
        self._set_options("session_options", options, settings.session_options)
        for key, value in settings.session_config_entries.items():
            options.add_session_config_entry(key, str(value))
        return self._start_session(onnxruntime, path, options, self._join_options(settings))

    def _find_code_options(self) -> Iterator[str]:
        """Yield the options in the settings that can name libraries to load or files to write."""
        for name in self._extra("session_options") or ():
            if name not in HARMLESS_OPTIONS:
                yield f'"{name}" in session_options'
        for name in CODE_OPTIONS:
            if self._extra(name):
                yield f'"{name}" in parameters.extra'
        if not all(isinstance(each, str) for each in self._extra("providers") or ()):
            yield "options of providers in parameters.extra"

    @property
    def _threads(self) -> int:
        options = self._extra("session_options")
        count = options.get("intra_op_num_threads") if isinstance(options, dict) else None
        return count if isinstance(count, int) and count > 0 else super()._threads

    def _set_options(self, setting: str, options: Any, values: Mapping[str, Any]) -> Any:
        """Set attributes and return `options`. MLServer documents integers for booleans and enumerations."""
        for name, value in values.items():
            current = getattr(options, name, None)
            if current is None or callable(current):
                raise self._build_load_error(f'"{name}" in {setting} is not an option of this ONNX Runtime')
            try:
                setattr(options, name, type(current)(value) if isinstance(value, int) else value)
            except Exception as error:  # ONNX Runtime exceptions have no common base class
                raise self._build_load_error(f'"{name}" in {setting} cannot be {value!r}') from error
        return options

    def _join_options(self, settings: MLServerOnnxSettings) -> Sequence[onnx.Provider]:
        """Return the providers with their options."""
        options = settings.provider_options
        if not options:
            return settings.providers
        options = [options] if isinstance(options, dict) else options
        if len(options) != len(settings.providers):
            raise self._build_load_error(
                f"provider_options has {len(options)} items, and providers has {len(settings.providers)}"
            )
        names = [each if isinstance(each, str) else each[0] for each in settings.providers]
        return [*zip(names, options, strict=True)]

    def _check_providers(self, names: Sequence[str], available: Sequence[str], reason: str) -> None:
        """Log missing providers. Raises ModelLoadFailed if all are missing."""
        missing = [name for name in names if name not in available]
        if len(missing) == len(names):
            super()._check_providers(names, available, reason)
        for name in missing:
            logger.warning("model %s: the provider %s %s", self.name, name, reason)

    def run(self, arrays: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        return dict(zip(outputs, self._artefact.run(outputs, arrays, self._run_options), strict=True))

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        wanted = payload.outputs or [RequestOutput(name=PREDICT_OUTPUT)]
        names = self._find_outputs(wanted)
        arrays = decode_arrays(self._takes, self._drop_unknown_inputs(payload))
        with self._convert_client_errors(payload):
            results = self.run(arrays, [*dict.fromkeys(names)])
        outputs = [
            encode_response_output(results[name], output, default_codec=NumpyCodec)
            for name, output in zip(names, wanted, strict=True)
        ]
        return InferenceResponse.of(self.name, outputs, self.version)

    def _find_outputs(self, wanted: Sequence[RequestOutput]) -> Sequence[str]:
        """Return the names in the graph of the requested outputs. Raises InvalidRequest for unknown ones."""
        first = next(iter(self._returns))
        names = [first if output.name == PREDICT_OUTPUT else output.name for output in wanted]
        if unknown := [name for name in names if name not in self._returns]:
            known = ", ".join([PREDICT_OUTPUT, *self._returns])
            raise InvalidRequest(f'output "{unknown[0]}" is not one of the model\'s outputs: {known}')
        return names

    def _drop_unknown_inputs(self, request: InferenceRequest) -> InferenceRequest:
        """Return a request without the inputs that the graph does not have."""
        if len(request.inputs) <= len(self._takes):
            return request
        inputs = [tensor for tensor in request.inputs if tensor.name in self._takes]
        return InferenceRequest.of(inputs, request.id, request.parameters, request.outputs)
