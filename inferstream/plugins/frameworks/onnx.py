"""ONNX models, run by ONNX Runtime."""

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
"""Datatypes of the protocol by ONNX Runtime type."""

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
"""Default execution providers, if available."""

Provider = str | tuple[str, dict[str, Any]]
"""The name of an execution provider, or its name and options."""

LEVELS = {"none": "ORT_DISABLE_ALL"} | {
    name: f"ORT_ENABLE_{name.upper()}" for name in ("basic", "extended", "layout", "all")
}


class OnnxSettings(BaseModel):
    """`parameters.extra` of an ONNX model."""

    model_config = ConfigDict(extra="forbid")

    providers: list[Provider] = []
    """Execution providers in order of preference: names, or names with options."""
    n_jobs: int = Field(1, ge=1)
    """Threads of one run."""
    graph_optimization: Literal["none", "basic", "extended", "layout", "all"] = "all"
    session_config: dict[str, str] = {}
    """Other entries of the ONNX Runtime session configuration."""


class OnnxModel(TensorModel):
    """An ONNX Runtime session, which several threads can run concurrently."""

    permitted_call = PermittedCall(
        "onnxruntime.InferenceSession", frozenset([".onnx"]), frozenset(["graph_optimization"])
    )
    artefacts = ("model.onnx",)

    def open(self, path: Path) -> Any:
        settings = self._validate_settings(OnnxSettings)
        if settings.session_config or any(isinstance(each, tuple) for each in settings.providers):
            # Some options name libraries to load and files to write.
            self._refuse_code(path, "options of providers and session_config in the settings")
        onnxruntime = self._import("onnxruntime", "onnx")
        options = self._session_options(onnxruntime, settings)
        return self._start_session(onnxruntime, path, options, settings.providers)

    def _start_session(
        self, onnxruntime: Any, path: Path, options: Any, providers: Sequence[Provider]
    ) -> Any:
        names = [each if isinstance(each, str) else each[0] for each in providers]
        known = onnxruntime.get_available_providers()
        self._check_providers(names, known, f"is not in this ONNX Runtime, which has {', '.join(known)}")
        usable = [each for each, name in zip(providers, names, strict=True) if name in known]
        usable = usable or [name for name in PROVIDERS if name in known]
        try:
            session = onnxruntime.InferenceSession(path, options, providers=usable)
        except Exception as error:  # ONNX Runtime exceptions have no common base class
            raise self._unreadable(path, f"ONNX Runtime {onnxruntime.__version__}", error) from error
        names = [name for name in names if name in known]
        self._check_providers(names, session.get_providers(), "did not start; the server's log says why")
        self.refused = (onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument,)
        return session

    def _check_providers(self, names: Sequence[str], available: Sequence[str], reason: str) -> None:
        """Raise ModelLoadFailed for a missing provider, which ONNX Runtime would replace with the CPU."""
        for name in names:
            if name not in available:
                raise self._build_load_error(f"the provider {name} {reason}")

    def _session_options(self, onnxruntime: Any, settings: OnnxSettings) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = settings.n_jobs
        options.inter_op_num_threads = 1
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, LEVELS[settings.graph_optimization]
        )
        # By default, idle threads spin and take CPU time from other requests.
        for key, value in {"session.intra_op.allow_spinning": "0", **settings.session_config}.items():
            options.add_session_config_entry(key, value)
        return options

    def takes(self, artefact: Any) -> Sequence[TensorSpec]:
        return [self._spec("input", node) for node in artefact.get_inputs()]

    def returns(self, artefact: Any) -> Sequence[TensorSpec]:
        nodes = artefact.get_outputs()
        served = [node for node in nodes if node.type.startswith("tensor(")]
        for node in nodes:
            if node not in served:
                logger.warning(
                    'model %s: output "%s" is not served: %s is not a tensor',
                    self.name,
                    node.name,
                    node.type,
                )
        if not served:
            raise self._build_load_error("none of its outputs is a tensor")
        return [self._spec("output", node) for node in served]

    def _spec(self, what: str, node: Any) -> TensorSpec:
        datatype = DATATYPES.get(node.type)
        if datatype is None:
            raise self._build_load_error(
                f'{what} "{node.name}" is a {node.type}, for which the protocol has no datatype'
            )
        shape = [-1 if size is None else size for size in node.shape]
        return TensorSpec(node.name, datatype, shape)

    def run(self, arrays: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        names = outputs or [*self._returns]
        return dict(zip(names, self._artefact.run(names, arrays), strict=True))
