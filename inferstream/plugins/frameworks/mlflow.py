"""MLflow models of any flavor with a `python_function`, served according to their signature."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

from inferstream import ModelSettings, custom_handler
from inferstream.codecs import NumpyCodec, NumpyRequestCodec
from inferstream.errors import InferstreamError, InvalidRequest
from inferstream.ext.runtimes import ArtefactModel, TrustedRuntimes, UntrustedOrigin, described_tensor
from inferstream.ext.values import Description, to_datatype, to_dtype
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestOutput,
)

from .libraries import LIBRARIES
from .scoring import ScoringResponse, score_body
from .tables import CONTENT_TYPES, DATATYPES, SignatureTable
from .tensors import TensorSpec, decode_arrays

TELEMETRY = "MLFLOW_DISABLE_TELEMETRY"
"""Environment variable that disables MLflow telemetry."""

SERVING = "_MLFLOW_IS_IN_SERVING_ENVIRONMENT"
"""Environment variable with which MLflow converts JSON strings to the type hints `bytes` and `datetime`."""

UNNAMED_INPUT = "input-0"

FLAVOR = "python_function"
LOADER = "loader_module"
"""The key of the module that loads a model with this flavor."""

OF_SERVER = ("priority", "timeout", "binary_data_output", "sequence_id", "sequence_start", "sequence_end")
"""Request parameters for the server. The model receives them only if its signature contains them."""

KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "datetime": (str,),
}
"""JSON types that a parameter with an MLflow type accepts."""


class MLflowModel(ArtefactModel):
    """A folder with an `MLmodel` file. Its signature defines the columns or tensors of a request.

    Without a signature, requests are decoded by their content types, by default to an array.
    """

    artefacts = ("MLmodel",)
    libraries = LIBRARIES
    gives_content_types = False
    """Whether responses and metadata contain content types, as in MLServer."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._artefact: Any = None
        self._table: SignatureTable | None = None
        self._tensors: dict[str, TensorSpec] = {}
        self._named = False
        self._params: dict[str, Any] = {}
        self._error: Any = ()
        if settings.implementation_.startswith("mlserver_"):
            self.gives_content_types = True
        # Name of an array output in the MLServer runtime, and in KServe.
        self._output = "output-1" if self.gives_content_types else "output-0"

    def open(self, path: Path) -> Any:
        os.environ.setdefault(TELEMETRY, "true")
        os.environ.setdefault(SERVING, "true")
        pyfunc = self._import("mlflow.pyfunc", "mlflow")
        self._error = self._import("mlflow.exceptions", "mlflow").MlflowException
        try:
            self._reject_modules(path)
            with self._loading(str(path.parent)):
                return pyfunc.load_model(str(path.parent))
        except InferstreamError:
            raise
        except ModuleNotFoundError as error:
            raise self._build_load_error(
                f"it needs {error.name}; the requirements.txt beside it names its packages"
            ) from error
        except Exception as error:  # of any library
            version = self._import("mlflow", "mlflow").__version__
            raise self._unreadable(path, f"MLflow {version}", error) from error

    def _reject_modules(self, path: Path) -> None:
        """Raise InvalidSettings if a model has modules of its own while a list of trusted runtimes is in force."""
        if TrustedRuntimes.current() is None:
            return
        flavors = self._import("mlflow.models", "mlflow").Model.load(str(path.parent)).flavors
        modules = [key for each in flavors.values() for key in ("code", "model_code_path") if each.get(key)]
        if not flavors.get(FLAVOR, {}).get(LOADER, "mlflow.").startswith("mlflow."):
            modules.append(LOADER)
        if modules:
            raise UntrustedOrigin(path.name).refusal(f'"{modules[0]}"')

    async def load(self) -> bool:
        self._artefact = await self._read()
        signature = self._artefact.metadata.signature
        if signature is None:
            return True
        if signature.inputs is not None and signature.inputs.is_tensor_spec():
            self._tensors = {spec.name: spec for spec in map(_tensor, signature.inputs.inputs)}
            self._named = signature.inputs.has_input_names()
        elif signature.inputs is not None:
            self._table = SignatureTable(signature.inputs.inputs)
        self._params = {spec.name: spec for spec in (signature.params.params if signature.params else ())}
        inputs, outputs = self._describe_inputs(), self._describe_outputs(signature.outputs)
        self._description = Description(inputs, outputs)
        if self.gives_content_types:
            self._add_content_types(signature)
        return True

    def _add_content_types(self, signature: Any) -> None:
        """Add the content types to the metadata with which MLServer clients encode and decode."""
        inputs, outputs = self._description.inputs, self._description.outputs
        for tensors, schema in ((inputs, signature.inputs), (outputs, signature.outputs)):
            for tensor, spec in zip(tensors, schema.inputs if tensors else (), strict=True):
                kind = (
                    "np" if schema.is_tensor_spec() else CONTENT_TYPES.get(_type_name(spec.type), "pd_json")
                )
                tensor.parameters = (tensor.parameters or Parameters()).model_copy(
                    update={"content_type": kind}
                )
        if inputs:
            kind = "dict" if self._named else "np" if self._tensors else "pd"
            self._description = Description(inputs, outputs, {"content_type": kind})

    def _describe_inputs(self) -> tuple[MetadataTensor, ...]:
        if self._table is not None:
            return self._table.columns.tensors()
        return tuple(
            described_tensor(spec.name, str(spec.datatype), spec.metadata.shape)
            for spec in self._tensors.values()
        )

    def _describe_outputs(self, schema: Any) -> tuple[MetadataTensor, ...]:
        """Return the outputs in the signature. Types that become JSON strings have the datatype BYTES."""
        if schema is None:
            return ()
        if schema.is_tensor_spec():
            specs = [_tensor(spec, self._output) for spec in schema.inputs]
            return tuple(
                described_tensor(each.name, str(each.datatype), each.metadata.shape) for each in specs
            )
        return tuple(
            described_tensor(
                spec.name or self._output, DATATYPES.get(_type_name(spec.type), "BYTES"), [-1, 1]
            )
            for spec in schema.inputs
        )

    async def unload(self) -> bool:
        self._artefact = None
        return True

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        features, params = self._features(payload), self._read_params(payload)
        with self._convert_client_errors(payload):
            result = self._artefact.predict(features, params=params)
        return self._response(result)

    def score_body(self, body: bytes, media_type: str) -> ScoringResponse:
        """Return the response of the MLflow scoring server. Raises the error of the model."""
        scoring = self._import("mlflow.pyfunc.scoring_server", "mlflow")
        with self._loading():
            return score_body(scoring, self._error, self._artefact, body, media_type)

    @custom_handler("/version", "GET")
    def respond_version(self) -> Any:
        """Return the version of MLflow, as its scoring server does."""
        from starlette.responses import Response  # Imported lazily: only the server needs it.

        return Response(self._import("mlflow", "mlflow").__version__, media_type="application/json")

    @contextmanager
    def _convert_client_errors(self, payload: InferenceRequest) -> Iterator[None]:
        """Convert MLflow client errors to InvalidRequest, with their message."""
        try:
            with self._loading(), super()._convert_client_errors(payload):
                yield
        except self._error as error:
            if error.get_http_status_code() >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            raise self._refusal_of(payload, error) from error

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        """Yield the chunks of a model whose flavor supports streaming, else a single response."""
        payload = next(payloads)
        if not self._artefact.metadata.flavors.get(FLAVOR, {}).get("streamable"):
            yield self.predict(payload)
            return
        features, params = self._features(payload), self._read_params(payload)
        with self._convert_client_errors(payload):
            for chunk in self._artefact.predict_stream(features, params=params):
                yield self._response(chunk)

    def _features(self, request: InferenceRequest) -> Any:
        several = len(request.inputs) > 1
        if self._tensors:
            if several and not self._named and (frame := self.decode_request(request)) is not request:
                return self._to_array(frame)
            arrays = decode_arrays(self._tensors, request)
            return arrays if self._named else next(iter(arrays.values()))
        if self._table is None:
            features = self.decode_request(request, default_codec=None if several else NumpyRequestCodec)
            if features is not request:
                return features
            return {tensor.name: self.decode(tensor, default_codec=NumpyCodec) for tensor in request.inputs}
        if self._table.columns.takes(request):
            return self._table.frame_from_columns(request)
        return self._table.build_frame(
            self.decode_request(request, default_codec=NumpyRequestCodec), self._inputs_of(request)
        )

    def _to_array(self, frame: Any) -> Any:
        """Convert a data frame to the only tensor. Raises InvalidRequest."""
        [spec] = self._tensors.values()
        array, dtype = np.asarray(frame), to_dtype(spec.datatype or "")
        if np.can_cast(array.dtype, dtype, "same_kind"):
            array = array.astype(dtype)
        return spec.array(NumpyCodec.encode_input(spec.name, array))

    def _read_params(self, request: InferenceRequest) -> dict[str, Any] | None:
        """Return the request parameters for the signature. Raises InvalidRequest for other parameters."""
        given = (request.parameters.model_extra if request.parameters is not None else None) or {}
        named = {
            name: value for name, value in given.items() if name not in OF_SERVER or name in self._params
        }
        for name, value in named.items():
            if name not in self._params:
                known = f"has {', '.join(self._params)}" if self._params else "has none"
                raise InvalidRequest(
                    f'parameter "{name}" is not in the signature of the model, which {known}'
                )
            spec = self._params[name]
            values = value if spec.shape and isinstance(value, list) else [value]
            kinds = KINDS.get(_type_name(spec.dtype), (dict,))
            if not all(type(each) in kinds for each in values) or bool(spec.shape) != isinstance(value, list):
                several = "a list of " if spec.shape else ""
                expected = several + _type_name(spec.dtype)
                raise InvalidRequest(
                    f'parameter "{name}": the model takes {expected}, got a {type(value).__name__}'
                )
        return named or None

    def _response(self, result: Any) -> InferenceResponse:
        """Return the response for a result: a data frame, series, array, list, string, or dict of these."""
        if hasattr(result, "columns") and hasattr(result, "iloc"):
            from inferstream.codecs import PandasCodec

            return PandasCodec.encode_response(self.name, result, self.version)
        results = result if isinstance(result, Mapping) else {self._output: result}
        outputs = [
            self.encode(_array(each), RequestOutput(name=str(name)), default_codec=NumpyCodec)
            for name, each in results.items()
        ]
        parameters = Parameters.of({}, _content_type(result)) if self.gives_content_types else None
        return InferenceResponse.of(self.name, outputs, self.version, parameters=parameters)


def _tensor(spec: Any, unnamed: str = UNNAMED_INPUT) -> TensorSpec:
    return TensorSpec(spec.name or unnamed, to_datatype(np.dtype(spec.type)).value, list(spec.shape))


def _type_name(kind: Any) -> str:
    """Return the MLflow name of a type, or an empty string for an array, object or map."""
    return str(getattr(kind, "name", ""))


def _content_type(result: Any) -> str:
    """Return the content type of a response in MLServer, for a result other than a data frame."""
    if isinstance(result, Mapping):
        return "dict"
    is_text = isinstance(result, list) and result and all(isinstance(each, str) for each in result)
    return "str" if is_text else "np"


def _array(result: Any) -> Any:
    """Convert a result to an array. Values without a tensor datatype, such as chat messages, become JSON."""
    array = result.toarray() if hasattr(result, "toarray") else np.asarray(result)
    if array.dtype.kind != "O" or all(isinstance(each, str | bytes) for each in array.flat):
        return array
    import orjson

    texts = [orjson.dumps(each, option=orjson.OPT_SERIALIZE_NUMPY).decode() for each in array.flat]
    return np.array(texts, dtype=object).reshape(array.shape)
