"""The base class of runtimes whose outputs are the results of an artefact's methods."""

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..codecs import NumpyCodec, NumpyRequestCodec
from ..errors import InvalidRequest
from ..settings import ModelSettings
from ..signature import Description
from ..types import InferenceRequest, InferenceResponse, MetadataTensor, RequestOutput
from .artefact import ArtefactModel, join_alternatives
from .columns import Columns

logger = logging.getLogger("inferstream.runtimes")

Function = Callable[..., Any]

ONLY_OUTPUT = "output-0"
"""The name of the only output in KServe model servers, with which KServe clients request it."""

MLSERVER = "mlserver_"
"""Prefix of MLServer runtime names. Models with such a name are served as in MLServer."""


class Runtime(ArtefactModel):
    """Serves the artefact that `open` reads. Each output is the result of one method on the decoded request.

    The `outputs` of a request select from `functions`. The default is `parameters.extra.predict_fn`, or
    `predict`.
    """

    functions: ClassVar[Sequence[str]] = ("predict",)
    """Methods that clients may request, if the artefact has them."""

    by_position: ClassVar[bool] = False
    """Whether the framework reads data frame columns by position, without checking their names."""

    selects_outputs: ClassVar[bool | None] = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._artefact: Any = None
        self._predict_fn = str(self._extra("predict_fn", "predict"))
        self._default = RequestOutput(name=self._predict_fn)
        self._functions: dict[str, Function] = {}
        self._features: int | None = None
        self._columns: Columns | None = None

    def method(self, artefact: Any, name: str) -> Function | None:
        """Return the method for the output `name`, or None."""
        function = None if name.startswith("_") else getattr(artefact, name, None)
        return function if callable(function) else None

    def features(self, artefact: Any) -> int | None:
        """Return the number of columns that the artefact expects, or None if it is unknown."""
        raise NotImplementedError

    def columns(self, artefact: Any) -> Columns | None:
        """Return the columns that the artefact was fitted with, or None if they have no names."""
        return None

    def describe(self, artefact: Any) -> Description:
        """Return the metadata of an artefact, used if the settings declare none. Called once, at load."""
        if self._columns is not None:
            inputs = self._columns.tensors()
        else:
            array = self.array(artefact)
            inputs = () if array is None else (array,)
        outputs = [self.output(artefact, name) for name in self._functions]
        return Description(inputs, tuple(output for output in outputs if output is not None))

    def array(self, artefact: Any) -> MetadataTensor | None:
        """Return the input of an artefact whose columns have no names, or None if it is uncertain."""
        return None

    def output(self, artefact: Any, method: str) -> MetadataTensor | None:
        """Return the output for the result of a method, or None if its datatype or shape is uncertain."""
        return None

    def wanted(self, outputs: Sequence[RequestOutput]) -> Sequence[RequestOutput]:
        """Return the requested outputs to compute. If empty, the default is computed."""
        return outputs

    async def load(self) -> bool:
        self._model = await self._read()
        self._check_functions(type(self._model).__name__)
        return True

    def _open_artefact(self, path: Path) -> Any:
        if self._predict_fn not in self.functions:  # other methods may write files
            self._refuse_code(Path(self.settings.source or ""), '"predict_fn" in parameters.extra')
        return super()._open_artefact(path)

    @property
    def _model(self) -> Any:
        """The artefact, under its name in MLServer runtimes. A subclass may replace it."""
        return self._artefact

    @_model.setter
    def _model(self, artefact: Any) -> None:
        names = dict.fromkeys((*self.functions, self._predict_fn))
        methods = {name: self.method(artefact, name) for name in names}
        self._functions = {name: method for name, method in methods.items() if method is not None}
        self._default = RequestOutput(name=self._name_functions())
        self._features = self.features(artefact)
        self._artefact = artefact
        try:
            self._columns = self.columns(artefact)
            self._description = self.describe(artefact)
        except Exception:  # of any kind, because attributes of an estimator may run its author's code
            self._columns, self._description = None, Description()
            logger.warning("model %s: inputs and outputs are unknown", self.name, exc_info=True)

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        wanted = self.wanted(payload.outputs or ()) or [self._default]
        functions = [self._function(output.name) for output in wanted]
        features = self._table(payload)
        self._check(features, payload)
        try:
            with self._convert_client_errors(payload):
                results = [function(features) for function in functions]
        except InvalidRequest:
            if self._columns is not None and _is_frame(features):
                self._columns.check_numeric_columns(features)
            raise
        return self._response(results, wanted)

    def _table(self, request: InferenceRequest) -> Any:
        """Return the array or data frame of a request."""
        columns = self._columns
        if columns is None:
            return self.decode_request(request, default_codec=NumpyRequestCodec)
        if columns.takes(request) and self._content_type is None:
            return columns.table(request)
        features = self.decode_request(request, default_codec=NumpyRequestCodec)
        return columns.ordered(features) if _is_frame(features) else features

    @property
    def _content_type(self) -> str | None:
        parameters = self.settings.parameters
        return None if parameters is None else parameters.content_type

    def _name_functions(self) -> str:
        """Assign declared output names that are not functions to functions, and return the default output.

        The first such name is the default output, unless the outputs also declare `predict_fn`.
        """
        if self.for_mlserver or self.settings.implementation_.startswith(MLSERVER):
            return self._predict_fn
        declared = [tensor.name for tensor in self.settings.outputs]
        names = [name for name in declared if name not in self._functions]
        order = dict.fromkeys((self._predict_fn, *self._functions))
        unnamed = [name for name in order if name in self._functions and name not in declared]
        default = self._predict_fn
        for name, function in zip(names, unnamed, strict=False):
            self._functions[name] = self._functions[function]
            default = name if function == self._predict_fn else default
        if default not in self._functions and self._extra("predict_fn") is None:
            return next(iter(self._functions), default)  # a transformer, for example
        return default

    def _check_functions(self, kind: str) -> None:
        """Raise ModelLoadFailed if the artefact has no suitable method, or not the method `predict_fn`."""
        if not self._functions:
            raise self._build_load_error(f"a {kind} has no {join_alternatives(self.functions)}")
        if self._extra("predict_fn") is not None and self._predict_fn not in self._functions:
            known = ", ".join(self._functions)
            raise self._build_load_error(
                f'predict_fn "{self._predict_fn}" is no method of a {kind}, which has {known}'
            )

    def _function(self, name: str) -> Function:
        function = self._functions.get(self._default.name if name == ONLY_OUTPUT else name)
        if function is None:
            known = ", ".join(self._functions)
            raise InvalidRequest(f'output "{name}" is not one of the model\'s outputs: {known}')
        return function

    def _check(self, features: Any, request: InferenceRequest) -> None:
        """Raise InvalidRequest for a wrong shape. Frameworks would raise C++ stack traces, or no error."""
        if self._features is None or (_is_frame(features) and not self.by_position):
            return
        shape = np.shape(features)
        if len(shape) != 2 or shape[1] != self._features:
            more = "" if self._columns is None else f"; or the columns {self._columns.listed()}"
            raise InvalidRequest(
                f"{self._inputs_of(request)}: the model takes shape {[-1, self._features]}, got {list(shape)}{more}"
            )

    def _response(self, results: Sequence[Any], wanted: Sequence[RequestOutput]) -> InferenceResponse:
        frames = [output.name for output, result in zip(wanted, results, strict=True) if _is_frame(result)]
        if frames and len(wanted) > 1:
            raise InvalidRequest(
                f'output "{frames[0]}" is a data frame, one output per column, and has to be asked for alone'
            )
        if frames:
            from ..codecs.pandas import PandasCodec

            return PandasCodec.encode_response(self.name, results[0], self.version)
        outputs = [
            self.encode(_dense(result), output, default_codec=NumpyCodec)
            for output, result in zip(wanted, results, strict=True)
        ]
        return InferenceResponse.of(self.name, outputs, self.version)


def _is_frame(result: Any) -> bool:
    # If pandas is not imported, there are no data frames. Importing it takes longer than a prediction.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(result, pandas.DataFrame)


def _dense(result: Any) -> Any:
    """Convert a sparse matrix from an encoder or vectorizer, because the protocol has only dense tensors."""
    return result.toarray() if hasattr(result, "toarray") else result
