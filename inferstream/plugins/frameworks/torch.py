"""PyTorch models: torch.export programs, TorchScript, and safetensors weights with a class."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

from pydantic import BaseModel, ConfigDict, Field

from inferstream import ModelSettings
from inferstream.ext.runtimes import TORCH_LOADING, PermittedCall
from inferstream.ext.values import DTYPES, Array
from inferstream.types import MetadataTensor

from .tensors import TensorModel, TensorSpec

UNREADABLE = (
    *(AttributeError, BadZipFile, ImportError, KeyError, OSError),
    *(RuntimeError, TypeError, ValueError),
)
"""Exceptions that PyTorch raises for unreadable files and for weights that do not fit the class."""

REFUSED = (AssertionError, RuntimeError)
"""Exceptions that a program raises for invalid input values."""

DATATYPES = {"bool": "BOOL", "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"} | {
    name.lower(): name for name, dtype in DTYPES.items() if dtype.kind in "iu"
}
"""Protocol datatypes by PyTorch dtype."""


class TorchProgram(NamedTuple):
    """A loaded program: a function of tensors in the order of `takes`.

    `returns` is empty if the outputs are unknown before a run. `refused` are the exceptions for invalid
    values.
    """

    call: Callable[[Sequence[Any]], Any]
    takes: Sequence[TensorSpec]
    returns: Sequence[TensorSpec] = ()
    refused: tuple[type[Exception], ...] = ()


class TorchSettings(BaseModel):
    """`parameters.extra` of a PyTorch model."""

    model_config = ConfigDict(extra="forbid")

    device: str | None = None
    """By default, `cuda` if available, else `cpu`."""
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    """Dtype of weights and floating-point inputs, by default from the file. Outputs with it are FP32."""
    quantize: Literal["int8"] | None = None
    """Quantization of linear layers to one byte per weight."""
    class_: str | None = Field(None, alias="class")
    """The `torch.nn.Module` class of safetensors weights, as module.Class."""
    arguments: dict[str, Any] = {}
    """Arguments of its constructor."""


class TorchModel(TensorModel):
    """A module in inference mode. By default, requests run one at a time, because each uses all cores."""

    permitted_call = PermittedCall("safetensors.torch.load_file", frozenset([".safetensors"]))
    artefacts = ("model.pt2", "model.pt", "model.safetensors")

    def __init__(self, settings: ModelSettings) -> None:
        if settings.threads is None:
            settings.threads = settings.max_concurrency or 1
        super().__init__(settings)
        self._torch: Any = None
        self._device = "cpu"
        self._dtype: Any = None

    def open(self, path: Path) -> TorchProgram:
        settings = self._validate_settings(TorchSettings)
        self._refuse_code(path, '"class" in the settings')
        torch = self._torch = self._import("torch", "torch")
        self._device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._dtype = settings.dtype and getattr(torch, settings.dtype)
        for name in _fixed_settings(path.suffix):
            if getattr(settings, name) is not None:
                raise self._build_load_error(
                    f'"{name}" in parameters.extra cannot change {path.name}, which is traced'
                )
        with TORCH_LOADING:
            return self._program(path, settings)

    def _program(self, path: Path, settings: TorchSettings) -> TorchProgram:
        try:
            if path.suffix == ".pt2":
                return self._load_exported_program(path)
            return (
                self._load_class(path, settings)
                if path.suffix == ".safetensors"
                else self._load_scripted_program(path)
            )
        except UNREADABLE as error:
            raise self._unreadable(path, f"PyTorch {self._torch.__version__}", error) from error

    def takes(self, artefact: TorchProgram) -> Sequence[TensorSpec]:
        return _to_specs(self.settings.inputs) or artefact.takes

    def returns(self, artefact: TorchProgram) -> Sequence[TensorSpec]:
        return _to_specs(self.settings.outputs) or artefact.returns

    def _load_exported_program(self, path: Path) -> TorchProgram:
        passes = self._import("torch.export.passes", "torch")
        tree = self._import("torch.utils._pytree", "torch")
        program = passes.move_to_device_pass(self._torch.export.load(path), self._device)
        module, form = program.module(), program.call_spec.in_spec

        def call(tensors: Sequence[Any]) -> Any:
            arguments, named = tree.tree_unflatten(tensors, form)
            return tree.tree_leaves(module(*arguments, **named))

        signature, results = program.graph_signature, program.call_spec.out_spec
        values = {node.name: node.meta.get("val") for node in program.graph.nodes}
        names = signature.user_outputs
        keys = results.context if results.type is dict and len(results.context) == len(names) else names
        return TorchProgram(
            call,
            [self._spec("input", name, values.get(name)) for name in signature.user_inputs],
            [
                self._spec("output", key, values.get(name))._replace(name=str(key))
                for key, name in zip(keys, names, strict=True)
            ],
            REFUSED,
        )

    def _load_scripted_program(self, path: Path) -> TorchProgram:
        if _is_pickle(path):
            raise self._build_load_error(
                f"{path.name} was written by torch.save and holds no program; write the model by torch.export.save "
                'as model.pt2, by torch.jit.save as model.pt, or its weights as safetensors with "class" in '
                "parameters.extra"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # known, and such files exist
            module = self._torch.jit.load(path, map_location=self._device).eval()
        module = module.to(self._device, self._dtype)
        names = [argument.name for argument in module.forward.schema.arguments[1:]]
        return TorchProgram(
            lambda tensors: module(*tensors), [TensorSpec(name, None, ()) for name in names], (), REFUSED
        )

    def _load_class(self, path: Path, settings: TorchSettings) -> TorchProgram:
        if settings.class_ is None:
            raise self._build_load_error(
                'weights in safetensors need the "class" of their module in parameters.extra'
            )
        weights = self._import("safetensors.torch", "torch").load_file(path)
        module = self._resolve_class(settings.class_)(**settings.arguments)
        module.load_state_dict(weights)
        module = module.to(self._device, self._dtype).eval()
        if settings.quantize is not None:
            from .quantization import quantize  # Imported lazily: it imports torch.

            quantize(module)
        parameters = inspect.signature(module.forward).parameters.values()
        names = [each.name for each in parameters if each.default is each.empty]
        return TorchProgram(lambda tensors: module(*tensors), [TensorSpec(name, None, ()) for name in names])

    def _spec(self, what: str, name: str, value: Any) -> TensorSpec:
        datatype = DATATYPES.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
        if datatype is None:
            raise self._build_load_error(f'{what} "{name}" is no tensor of a datatype that the protocol has')
        if what == "output" and datatype == "BF16":
            datatype = "FP32"  # NumPy has no bfloat16
        return TensorSpec(
            name, datatype, [size if isinstance(size, int) else str(size) for size in value.shape]
        )

    def run(self, arrays: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        tensors = [self._tensor(array, self._takes[name].datatype) for name, array in arrays.items()]
        try:
            with self._torch.inference_mode():
                result = self._artefact.call(tensors)
        except self._artefact.refused as error:
            if type(error) not in REFUSED:
                raise  # such as out of memory
            # Only the last line, because the others quote the code of the model.
            reason = str(error).strip().rpartition("\n")[2]
            if any(spec.datatype is None for spec in self._takes.values()):
                reason += '; declare "inputs" in the model\'s settings to give numbers in JSON a datatype'
            raise ValueError(reason) from error
        named = self._name_tensors(result)
        return {name: self._array(named[name]) for name in outputs or named if name in named}

    def _tensor(self, array: Array, datatype: str | None) -> Any:
        # PyTorch assumes writable memory, but a request's may be read-only.
        tensor = self._torch.from_numpy(array if array.flags.writeable else array.copy())
        dtype = self._torch.bfloat16 if datatype == "BF16" else None
        if self._dtype is not None and tensor.is_floating_point():
            dtype = self._dtype
        return tensor.to(device=self._device, dtype=dtype)

    def _name_tensors(self, result: Any) -> Mapping[str, Any]:
        """Return the tensors of a result by name: the keys of a mapping, or the known names in order."""
        if isinstance(result, Mapping):
            return result
        values = [result] if isinstance(result, self._torch.Tensor) else [*result]
        names = [*self._returns] or (
            ["output"] if len(values) == 1 else [f"output-{i}" for i in range(len(values))]
        )
        if len(names) != len(values):
            raise TypeError(
                f"the model returns {len(values)} tensors, and its outputs are {', '.join(names)}"
            )
        return dict(zip(names, values, strict=True))

    def _array(self, value: Any) -> Array:
        tensor = value.cpu()
        wide = tensor.dtype in (self._torch.bfloat16, self._dtype)
        array: Array = (tensor.float() if wide else tensor).numpy()
        return array


def _is_pickle(path: Path) -> bool:
    """Return whether `torch.save` wrote a file: a pickle, or an archive with a pickle but without code."""
    if not is_zipfile(path):
        with path.open("rb") as file:
            return file.read(1) == b"\x80"  # first byte of a pickle
    with ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.endswith("/data.pkl") for name in names) and not any("/code/" in name for name in names)


def _to_specs(tensors: Sequence[MetadataTensor]) -> Sequence[TensorSpec]:
    return [TensorSpec(each.name, each.datatype, each.shape) for each in tensors]


def _fixed_settings(suffix: str) -> Sequence[str]:
    """Return the settings this file type does not support, because the exported program fixes its dtypes."""
    return {".pt2": ("dtype", "quantize"), ".pt": ("quantize",)}.get(suffix, ())
