"""PyTorch: programs of torch.export, TorchScript, and weights in safetensors with a class."""

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

from ..types import MetadataTensor
from .tensors import TensorModel, TensorSpec

UNREADABLE = (
    *(AttributeError, BadZipFile, ImportError, KeyError, OSError),
    *(RuntimeError, TypeError, ValueError),
)
"""What torch raises for files that it cannot read, and for weights of another class."""

REFUSED = (AssertionError, RuntimeError)
"""What a program raises for values that it does not take."""

DATATYPES = {"bool": "BOOL", "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64"} | {
    name.lower(): name for name, dtype in DTYPES.items() if dtype.kind in "iu"
}
"""The protocol's datatypes of torch's dtypes."""


class TorchProgram(NamedTuple):
    """What can be run: a function of tensors in the order of `takes`.

    `returns` is empty where the outputs are not known before a run. `refused` is what it raises for wrong values.
    """

    call: Callable[[Sequence[Any]], Any]
    takes: Sequence[TensorSpec]
    returns: Sequence[TensorSpec] = ()
    refused: tuple[type[Exception], ...] = ()


class TorchSettings(BaseModel):
    """`parameters.extra` of a PyTorch model."""

    model_config = ConfigDict(extra="forbid")

    device: str | None = None
    """`cuda` where there is one, else `cpu`."""
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    """The type of weights and of floating inputs; that of the file if it is absent. Outputs of it are FP32."""
    quantize: Literal["int8"] | None = None
    """Weights of linear layers take a byte each."""
    class_: str | None = Field(None, alias="class")
    """The `torch.nn.Module` of the weights in safetensors, as module.Class."""
    arguments: dict[str, Any] = {}
    """Arguments of its constructor."""


class TorchModel(TensorModel):
    """A module in the mode of inference. One run takes all cores, so requests run one after another."""

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
        settings = self._checked(TorchSettings)
        self._refuse_code(path, '"class" in the settings')
        torch = self._torch = self._import("torch", "torch")
        self._device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._dtype = settings.dtype and getattr(torch, settings.dtype)
        for name in _fixed(path.suffix):
            if getattr(settings, name) is not None:
                raise self._failed(f'"{name}" in parameters.extra cannot change {path.name}, which is traced')
        with TORCH_LOADING:
            return self._program(path, settings)

    def _program(self, path: Path, settings: TorchSettings) -> TorchProgram:
        try:
            if path.suffix == ".pt2":
                return self._exported(path)
            return self._of_class(path, settings) if path.suffix == ".safetensors" else self._scripted(path)
        except UNREADABLE as error:
            raise self._unreadable(path, f"PyTorch {self._torch.__version__}", error) from error

    def takes(self, artefact: TorchProgram) -> Sequence[TensorSpec]:
        return _declared(self.settings.inputs) or artefact.takes

    def returns(self, artefact: TorchProgram) -> Sequence[TensorSpec]:
        return _declared(self.settings.outputs) or artefact.returns

    def _exported(self, path: Path) -> TorchProgram:
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

    def _scripted(self, path: Path) -> TorchProgram:
        if _is_pickled(path):
            raise self._failed(
                f"{path.name} was written by torch.save and holds no program; write the model by torch.export.save "
                'as model.pt2, by torch.jit.save as model.pt, or its weights as safetensors with "class" in '
                "parameters.extra"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it is known, and the files are there
            module = self._torch.jit.load(path, map_location=self._device).eval()
        module = module.to(self._device, self._dtype)
        names = [argument.name for argument in module.forward.schema.arguments[1:]]
        return TorchProgram(
            lambda tensors: module(*tensors), [TensorSpec(name, None, ()) for name in names], (), REFUSED
        )

    def _of_class(self, path: Path, settings: TorchSettings) -> TorchProgram:
        if settings.class_ is None:
            raise self._failed('weights in safetensors need the "class" of their module in parameters.extra')
        weights = self._import("safetensors.torch", "torch").load_file(path)
        module = self._resolve_class(settings.class_)(**settings.arguments)
        module.load_state_dict(weights)
        module = module.to(self._device, self._dtype).eval()
        if settings.quantize is not None:
            from inferstream.plugins.frameworks.quantization import quantize  # late: it imports torch

            quantize(module)
        parameters = inspect.signature(module.forward).parameters.values()
        names = [each.name for each in parameters if each.default is each.empty]
        return TorchProgram(lambda tensors: module(*tensors), [TensorSpec(name, None, ()) for name in names])

    def _spec(self, what: str, name: str, value: Any) -> TensorSpec:
        datatype = DATATYPES.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
        if datatype is None:
            raise self._failed(f'{what} "{name}" is no tensor of a datatype that the protocol has')
        if what == "output" and datatype == "BF16":
            datatype = "FP32"  # NumPy has no other
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
                raise  # out of memory, for example
            # The last line; those before it quote the code of the model.
            reason = str(error).strip().rpartition("\n")[2]
            if any(spec.datatype is None for spec in self._takes.values()):
                reason += '; declare "inputs" in the model\'s settings to give numbers in JSON a datatype'
            raise ValueError(reason) from error
        named = self._named(result)
        return {name: self._array(named[name]) for name in outputs or named if name in named}

    def _tensor(self, array: Array, datatype: str | None) -> Any:
        # The memory of a request may not be written, which torch does not know of.
        tensor = self._torch.from_numpy(array if array.flags.writeable else array.copy())
        dtype = self._torch.bfloat16 if datatype == "BF16" else None
        if self._dtype is not None and tensor.is_floating_point():
            dtype = self._dtype
        return tensor.to(device=self._device, dtype=dtype)

    def _named(self, result: Any) -> Mapping[str, Any]:
        """The tensors of a result by name: of a mapping its keys, else the known names in their order."""
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


def _is_pickled(path: Path) -> bool:
    """Whether `torch.save` has written a file: a pickle, or an archive with one and without code."""
    if not is_zipfile(path):
        with path.open("rb") as file:
            return file.read(1) == b"\x80"  # how pickles begin
    with ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.endswith("/data.pkl") for name in names) and not any("/code/" in name for name in names)


def _declared(tensors: Sequence[MetadataTensor]) -> Sequence[TensorSpec]:
    return [TensorSpec(each.name, each.datatype, each.shape) for each in tensors]


def _fixed(suffix: str) -> Sequence[str]:
    """Settings that have no effect on a file: a program's types are those of its operators."""
    return {".pt2": ("dtype", "quantize"), ".pt": ("quantize",)}.get(suffix, ())
