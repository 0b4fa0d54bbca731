"""The base of runtimes: a framework reads an artefact, and the methods of the artefact are the outputs."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import numpy as np

from .. import processors
from ..codecs import NumpyCodec, NumpyRequestCodec
from ..errors import InvalidRequest, ModelLoadFailed
from ..imports.folders import importing_alone
from ..model import MLModel
from ..repository.uri import get_model_uri
from ..settings import ModelSettings
from ..types import InferenceRequest, InferenceResponse, Parameters, RequestOutput, ResponseOutput

logger = logging.getLogger("inferstream.runtimes")

Function = Callable[..., Any]

LIBRARIES = frozenset({"joblib", "lightgbm", "numpy", "pandas", "scipy", "sklearn", "xgboost"})
"""Libraries that raise ValueError for wrong input."""

LONGEST = 300
"""Characters of a library's message that a client gets. Some messages quote the whole input."""


class Runtime(MLModel):
    """Serves the artefact that `open` reads. Each output is the result of one method on the decoded request.

    The `outputs` of a request choose among `functions`. The default is `parameters.extra.predict_fn`, or `predict`.
    """

    artefacts: ClassVar[Sequence[str]]
    """File names of the artefact in a folder, in the order of the search."""

    functions: ClassVar[Sequence[str]] = ("predict",)
    """Methods that clients may request, if the artefact has them."""

    selects_outputs: ClassVar[bool | None] = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        if settings.threads is None:
            # Predictions compute. More threads than processors take more memory and save no time.
            settings.threads = settings.max_concurrency or processors.share()
        self._artefact: Any = None
        self._default = RequestOutput(name=str(self._extra("predict_fn", "predict")))
        self._functions: dict[str, Function] = {}
        self._features: int | None = None

    def open(self, path: Path) -> Any:
        """Read the artefact and import the framework, which is imported nowhere else. Runs in a thread."""
        raise NotImplementedError

    def method(self, artefact: Any, name: str) -> Function | None:
        """The method for the output `name`, or None."""
        found = None if name.startswith("_") else getattr(artefact, name, None)
        return found if callable(found) else None

    def features(self, artefact: Any) -> int | None:
        """The number of columns that the artefact takes; None if it is unknown."""
        raise NotImplementedError

    def wanted(self, outputs: Sequence[RequestOutput]) -> Sequence[RequestOutput]:
        """The outputs to compute, among those of the request; none for the default."""
        return outputs

    async def load(self) -> bool:
        self._model = await asyncio.to_thread(self._opened, await self._find())
        self._check_functions(type(self._model).__name__)
        return True

    @property
    def _model(self) -> Any:
        """The artefact, under the name in MLServer's runtimes. A subclass may replace it."""
        return self._artefact

    @_model.setter
    def _model(self, artefact: Any) -> None:
        names = dict.fromkeys((*self.functions, self._default.name))
        methods = {name: self.method(artefact, name) for name in names}
        self._functions = {name: method for name, method in methods.items() if method is not None}
        self._features = self.features(artefact)
        self._artefact = artefact

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        wanted = self.wanted(payload.outputs or ()) or [self._default]
        functions = [self._function(output.name) for output in wanted]
        features = self.decode_request(payload, default_codec=NumpyRequestCodec)
        self._check(features, payload)
        results = [_called(function, features, payload) for function in functions]
        return self._response(results, wanted)

    def _opened(self, path: Path) -> Any:
        with importing_alone():
            return self.open(path)

    def _extra(self, name: str, default: Any = None) -> Any:
        parameters = self.settings.parameters
        setting = parameters.extra if parameters is not None else None
        return (setting or {}).get(name, default)

    @property
    def _threads(self) -> int:
        """Threads for one prediction. The default is one, because requests run in parallel already."""
        setting = self._extra("n_jobs", 1)
        if not isinstance(setting, int):
            raise self._failed(f'"n_jobs" in parameters.extra is a number of threads, not {setting!r}')
        return setting

    def _check_functions(self, kind: str) -> None:
        """Raise ModelLoadFailed if the artefact has no method, or not the method of `predict_fn`."""
        if not self._functions:
            raise self._failed(f"a {kind} has no {_listed(self.functions)}")
        if self._extra("predict_fn") is not None and self._default.name not in self._functions:
            known = ", ".join(self._functions)
            raise self._failed(
                f'predict_fn "{self._default.name}" is no method of a {kind}, which has {known}'
            )

    def _unreadable(self, path: Path, framework: str, error: Exception) -> ModelLoadFailed:
        """An error without the framework's message, which may contain paths and stack traces of C++."""
        logger.error("model %s: %s cannot read %s", self.name, framework, path, exc_info=error)
        return self._failed(f"{framework} cannot read {path.name}; the server's log says why")

    def _failed(self, reason: str) -> ModelLoadFailed:
        return ModelLoadFailed(f"Model {self.name} did not load: {reason}.")

    def _import(self, module: str, extra: str) -> Any:
        """A module of the framework. Raises ModelLoadFailed with the command that installs it."""
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            package = module.partition(".")[0]
            if error.name != package:
                raise
            raise self._failed(f'it needs {package}: pip install "inferstream[{extra}]"') from error

    async def _find(self) -> Path:
        found = await get_model_uri(self.settings, self.artefacts)
        path = Path(found)
        if path.is_file():
            return path
        if path.is_dir():
            raise self._failed(f"its folder holds no {_listed(self.artefacts)}")
        raise self._failed(f"{found} is not a file")

    def _function(self, name: str) -> Function:
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(self._functions)
            raise InvalidRequest(f'output "{name}" is not one of the model\'s outputs: {known}')
        return function

    def _check(self, features: Any, request: InferenceRequest) -> None:
        """Refuse a wrong number of columns. Frameworks check the column names of data frames themselves."""
        if not _is_frame(features):
            self._check_shape(features, request)

    def _check_shape(self, features: Any, request: InferenceRequest) -> None:
        """Raise InvalidRequest for a wrong shape. Some frameworks raise C++ stack traces, others nothing."""
        if self._features is None:
            return
        shape = np.shape(features)
        if len(shape) != 2 or shape[1] != self._features:
            raise InvalidRequest(
                f"{inputs_of(request)}: the model takes shape {[-1, self._features]}, got {list(shape)}"
            )

    def _response(self, results: Sequence[Any], wanted: Sequence[RequestOutput]) -> InferenceResponse:
        fields: dict[str, Any] = {"model_name": self.name, "model_version": self.version}
        frames = [output.name for output, result in zip(wanted, results, strict=True) if _is_frame(result)]
        if frames and len(wanted) > 1:
            raise InvalidRequest(
                f'output "{frames[0]}" is a data frame, one output per column, and has to be asked for alone'
            )
        if frames:
            fields["outputs"] = _columns(results[0])
            fields["parameters"] = Parameters(content_type="pd")
        else:
            fields["outputs"] = [
                self.encode(_dense(result), output, default_codec=NumpyCodec)
                for output, result in zip(wanted, results, strict=True)
            ]
        return InferenceResponse.trusted(fields)


def _called(function: Function, features: Any, request: InferenceRequest) -> Any:
    try:
        return function(features)
    except ValueError as error:
        refused = refusal(error, request)
        if refused is None:
            raise
        raise refused from error


def _is_frame(result: Any) -> bool:
    # Without pandas there is no frame. Its import would take longer than the prediction.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(result, pandas.DataFrame)


def _columns(frame: Any) -> list[ResponseOutput]:
    from ..codecs.pandas import PandasCodec

    return PandasCodec.encode_outputs(frame)


def _dense(result: Any) -> Any:
    """A dense array: the protocol has no sparse matrices, which encoders and vectorizers return."""
    return result.toarray() if hasattr(result, "toarray") else result


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def refusal(error: ValueError, request: InferenceRequest) -> InvalidRequest | None:
    """The framework's error as an error of the client; None if the model may have caused it.

    It is an error of the client if only libraries' code ran below the runtime: clients must not read errors of a
    custom transformer in a pipeline. Subclasses of ValueError have other causes, such as a model without training.
    """
    if type(error) is not ValueError or not LIBRARIES.issuperset(_packages(error.__traceback__)):
        return None
    message = " ".join(str(error).split())
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    return InvalidRequest(f"{inputs_of(request)}: {message}")


def inputs_of(request: InferenceRequest) -> str:
    """The names of a request's inputs, for error messages."""
    names = ", ".join(f'"{tensor.name}"' for tensor in request.inputs)
    return f"{'input' if len(request.inputs) == 1 else 'inputs'} {names}"


def _packages(traceback: TracebackType | None) -> Iterator[str]:
    """Packages of the code that ran below the runtime's call, without the standard library."""
    traceback = traceback.tb_next if traceback is not None else None
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if package not in sys.stdlib_module_names:
            yield package
        traceback = traceback.tb_next
