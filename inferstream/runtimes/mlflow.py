"""MLflow: models of any flavor by their `python_function`, with the signature that was saved with them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

from inferstream import ModelSettings
from inferstream.ext.runtimes import ArtefactModel, described_tensor
from inferstream.ext.values import Description, to_datatype, to_dtype
from inferstream.plugins.frameworks.libraries import LIBRARIES

from ..codecs import NumpyCodec, NumpyRequestCodec
from ..errors import InvalidRequest
from ..types import InferenceRequest, InferenceResponse, MetadataTensor, RequestOutput
from .tables import DATATYPES, SignatureTable
from .tensors import TensorSpec, arrays_of

TELEMETRY = "MLFLOW_DISABLE_TELEMETRY"
"""The variable by which MLflow sends nothing about its use."""

UNNAMED_INPUT = "input-0"

FLAVOR = "python_function"

OF_SERVER = ("priority", "timeout", "binary_data_output", "sequence_id", "sequence_start", "sequence_end")
"""Parameters of requests that are for the server, whatever the signature says."""

KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "datetime": (str,),
}
"""The values of JSON that a parameter of MLflow's type takes."""


class MLflowModel(ArtefactModel):
    """A folder with a file `MLmodel`. Its signature says of which columns or tensors a request consists.

    Without a signature, requests are decoded by their content types, by default to an array.
    """

    artefacts = ("MLmodel",)
    libraries = LIBRARIES

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._artefact: Any = None
        self._table: SignatureTable | None = None
        self._tensors: dict[str, TensorSpec] = {}
        self._named = False
        self._params: dict[str, Any] = {}
        self._error: Any = ()
        # MLServer's runtime answers an array under the first name, KServe's under the second.
        self._output = "output-1" if settings.implementation_.startswith("mlserver_") else "output-0"

    def open(self, path: Path) -> Any:
        os.environ.setdefault(TELEMETRY, "true")
        pyfunc = self._import("mlflow.pyfunc", "mlflow")
        self._error = self._import("mlflow.exceptions", "mlflow").MlflowException
        try:
            with self._loading(str(path.parent)):
                return pyfunc.load_model(str(path.parent))
        except ModuleNotFoundError as error:
            raise self._failed(
                f"it needs {error.name}; the requirements.txt beside it names its packages"
            ) from error
        except Exception as error:  # of any library
            version = self._import("mlflow", "mlflow").__version__
            raise self._unreadable(path, f"MLflow {version}", error) from error

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
        self._description = Description(self._described_inputs(), self._described_outputs(signature.outputs))
        return True

    def _described_inputs(self) -> tuple[MetadataTensor, ...]:
        if self._table is not None:
            return self._table.columns.tensors()
        return tuple(
            described_tensor(spec.name, str(spec.datatype), spec.metadata.shape)
            for spec in self._tensors.values()
        )

    def _described_outputs(self, schema: Any) -> tuple[MetadataTensor, ...]:
        """What the signature says of the results; nothing of those that become texts of JSON."""
        if schema is None:
            return ()
        if schema.is_tensor_spec():
            specs = [_tensor(spec, self._output) for spec in schema.inputs]
            return tuple(
                described_tensor(each.name, str(each.datatype), each.metadata.shape) for each in specs
            )
        return tuple(
            described_tensor(spec.name or self._output, DATATYPES.get(_name_of(spec.type), "BYTES"), [-1, 1])
            for spec in schema.inputs
        )

    async def unload(self) -> bool:
        self._artefact = None
        return True

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        features, params = self._features(payload), self._given_params(payload)
        with self._refusing(payload):
            result = self._artefact.predict(features, params=params)
        return self._response(result)

    @contextmanager
    def _refusing(self, payload: InferenceRequest) -> Iterator[None]:
        """Raise what MLflow calls an error of the client as one, with its reason."""
        try:
            with self._loading(), self._blaming_the_client(payload):
                yield
        except self._error as error:
            if error.get_http_status_code() >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            raise self._refusal_of(payload, error) from error

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        """The chunks of a model whose flavor streams, else one response."""
        payload = next(payloads)
        if not self._artefact.metadata.flavors.get(FLAVOR, {}).get("streamable"):
            yield self.predict(payload)
            return
        features, params = self._features(payload), self._given_params(payload)
        with self._refusing(payload):
            for chunk in self._artefact.predict_stream(features, params=params):
                yield self._response(chunk)

    def _features(self, request: InferenceRequest) -> Any:
        several = len(request.inputs) > 1
        if self._tensors:
            if several and not self._named and (frame := self.decode_request(request)) is not request:
                return self._array_of(frame)
            arrays = arrays_of(self._tensors, request)
            return arrays if self._named else next(iter(arrays.values()))
        if self._table is None:
            features = self.decode_request(request, default_codec=None if several else NumpyRequestCodec)
            if features is not request:
                return features
            return {tensor.name: self.decode(tensor, default_codec=NumpyCodec) for tensor in request.inputs}
        if self._table.columns.takes(request):
            return self._table.of_columns(request)
        return self._table.of(
            self.decode_request(request, default_codec=NumpyRequestCodec), self._inputs_of(request)
        )

    def _array_of(self, frame: Any) -> Any:
        """A data frame as the only tensor. Raises InvalidRequest."""
        [spec] = self._tensors.values()
        array, dtype = np.asarray(frame), to_dtype(spec.datatype or "")
        if np.can_cast(array.dtype, dtype, "same_kind"):
            array = array.astype(dtype)
        return spec.array(NumpyCodec.encode_input(spec.name, array))

    def _given_params(self, request: InferenceRequest) -> dict[str, Any] | None:
        """The parameters of the request that the signature names. Raises InvalidRequest."""
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
            kinds = KINDS.get(_name_of(spec.dtype), (dict,))
            if not all(type(each) in kinds for each in values) or bool(spec.shape) != isinstance(value, list):
                several = "a list of " if spec.shape else ""
                raise InvalidRequest(
                    f'parameter "{name}": the model takes {several}{_name_of(spec.dtype)}, got a {type(value).__name__}'
                )
        return named or None

    def _response(self, result: Any) -> InferenceResponse:
        """The response for what a flavor returns: a frame, a series, an array, a list, a dict of them, a text."""
        if hasattr(result, "columns") and hasattr(result, "iloc"):
            from inferstream.codecs import PandasCodec

            return PandasCodec.encode_response(self.name, result, self.version)
        results = result if isinstance(result, Mapping) else {self._output: result}
        outputs = [
            self.encode(_array(each), RequestOutput(name=str(name)), default_codec=NumpyCodec)
            for name, each in results.items()
        ]
        return InferenceResponse.of(self.name, outputs, self.version)


def _tensor(spec: Any, unnamed: str = UNNAMED_INPUT) -> TensorSpec:
    return TensorSpec(spec.name or unnamed, to_datatype(np.dtype(spec.type)).value, list(spec.shape))


def _name_of(kind: Any) -> str:
    """MLflow's name of a type; empty for an array, an object or a map."""
    return str(getattr(kind, "name", ""))


def _array(result: Any) -> Any:
    """The array of a result. Values that no tensor holds, such as the messages of a chat, are texts of JSON."""
    array = result.toarray() if hasattr(result, "toarray") else np.asarray(result)
    if array.dtype.kind != "O" or all(isinstance(each, str | bytes) for each in array.flat):
        return array
    import orjson

    texts = [orjson.dumps(each, option=orjson.OPT_SERIALIZE_NUMPY).decode() for each in array.flat]
    return np.array(texts, dtype=object).reshape(array.shape)
