"""ONNX: sessions of ONNX Runtime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inferstream.ext.runtimes import PermittedCall
from inferstream.ext.telemetry import get_logger
from inferstream.ext.values import DTYPES, Array

from .tensors import TensorModel, TensorSpec

logger = get_logger("runtimes")

DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(double)": "FP64",
    "tensor(float)": "FP32",
    "tensor(float16)": "FP16",
    "tensor(string)": "BYTES",
    **{f"tensor({name.lower()})": name for name, dtype in DTYPES.items() if dtype.kind in "iu"},
}
"""The protocol's datatypes of ONNX Runtime's types."""

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
"""The providers that a session gets where they are, unless its settings name others."""

LEVELS = {"none": "ORT_DISABLE_ALL"} | {
    name: f"ORT_ENABLE_{name.upper()}" for name in ("basic", "extended", "layout", "all")
}


class OnnxSettings(BaseModel):
    """`parameters.extra` of an ONNX model."""

    model_config = ConfigDict(extra="forbid")

    providers: list[str | tuple[str, dict[str, Any]]] = []
    """Names of execution providers, or names with their options, in the order of preference."""
    n_jobs: int = Field(1, ge=1)
    """Threads of one run."""
    graph_optimization: Literal["none", "basic", "extended", "layout", "all"] = "all"
    session_config: dict[str, str] = {}
    """Further entries of ONNX Runtime's configuration of a session."""


class OnnxModel(TensorModel):
    """A session, which several threads run at once."""

    permitted_call = PermittedCall(
        "onnxruntime.InferenceSession", frozenset([".onnx"]), frozenset(["graph_optimization"])
    )
    artefacts = ("model.onnx",)

    def open(self, path: Path) -> Any:
        settings = self._checked(OnnxSettings)
        if settings.session_config or any(isinstance(each, tuple) for each in settings.providers):
            # Some of them name libraries to load, and files to write.
            self._refuse_code(path, "options of providers and session_config in the settings")
        onnxruntime = self._import("onnxruntime", "onnx")
        options = self._session_options(onnxruntime, settings)
        providers = self._providers(onnxruntime, settings)
        try:
            session = onnxruntime.InferenceSession(path, options, providers=providers)
        except Exception as error:  # its errors have no class in common
            raise self._unreadable(path, f"ONNX Runtime {onnxruntime.__version__}", error) from error
        for name in map(_name_of, settings.providers):
            if name not in session.get_providers():
                raise self._failed(f"{name} did not start; the server's log says why")
        self.refused = (onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,)
        return session

    def _session_options(self, onnxruntime: Any, settings: OnnxSettings) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = settings.n_jobs
        options.inter_op_num_threads = 1
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, LEVELS[settings.graph_optimization]
        )
        # Threads that wait for work would otherwise spin, and take the processor from other requests.
        for key, value in {"session.intra_op.allow_spinning": "0", **settings.session_config}.items():
            options.add_session_config_entry(key, value)
        return options

    def _providers(self, onnxruntime: Any, settings: OnnxSettings) -> list[Any]:
        available = onnxruntime.get_available_providers()
        for name in map(_name_of, settings.providers):
            if name not in available:
                raise self._failed(
                    f'the ONNX Runtime here has no provider "{name}", but {", ".join(available)}'
                )
        return [*settings.providers] or [name for name in PROVIDERS if name in available]

    def takes(self, artefact: Any) -> Sequence[TensorSpec]:
        return [self._spec("input", node) for node in artefact.get_inputs()]

    def returns(self, artefact: Any) -> Sequence[TensorSpec]:
        nodes = artefact.get_outputs()
        served = [node for node in nodes if node.type.startswith("tensor(")]
        for node in nodes:
            if node not in served:
                logger.warning(
                    'model %s: its output "%s" is not served, because a %s is no tensor',
                    self.name,
                    node.name,
                    node.type,
                )
        if not served:
            raise self._failed("none of its outputs is a tensor")
        return [self._spec("output", node) for node in served]

    def _spec(self, what: str, node: Any) -> TensorSpec:
        datatype = DATATYPES.get(node.type)
        if datatype is None:
            raise self._failed(
                f'{what} "{node.name}" is a {node.type}, for which the protocol has no datatype'
            )
        shape = [-1 if size is None else size for size in node.shape]
        return TensorSpec(node.name, datatype, shape)

    def run(self, arrays: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        names = outputs or [*self._returns]
        return dict(zip(names, self._artefact.run(names, arrays), strict=True))


def _name_of(provider: str | tuple[str, dict[str, Any]]) -> str:
    return provider if isinstance(provider, str) else provider[0]
