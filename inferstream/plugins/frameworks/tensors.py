"""The base class of runtimes whose artefacts describe named tensors."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from inferstream import ModelSettings, StringCodec
from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import ArtefactModel
from inferstream.ext.values import Array, decode_array, encode_array, object_array
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    ResponseOutput,
)

from .libraries import LIBRARIES


class TensorSpec(NamedTuple):
    """The description of a tensor in an artefact.

    A dimension is a size, -1 for any size, or a name. Dimensions with the same name must have equal sizes. An
    empty shape is a scalar or unknown. A datatype of None is unknown.
    """

    name: str
    datatype: str | None
    shape: Sequence[int | str]

    @property
    def metadata(self) -> MetadataTensor:
        shape = [size if isinstance(size, int) else -1 for size in self.shape]
        parameters = Parameters.of(None, "str") if self.datatype == "BYTES" else None
        return MetadataTensor(name=self.name, datatype=self.datatype, shape=shape, parameters=parameters)

    @property
    def has_rows(self) -> bool:
        """Whether the first dimension can be the rows of several requests."""
        if self.datatype is None:
            return True
        return bool(self.shape) and (isinstance(self.shape[0], str) or self.shape[0] == -1)

    def array(self, tensor: RequestInput) -> Array:
        """Return the array of a request tensor, whose shape may have more or fewer trailing 1s.

        Raises InvalidRequest for any other shape or datatype.
        """
        if self.datatype not in (None, tensor.datatype):
            raise InvalidRequest(
                f'input "{tensor.name}": the model takes {self.datatype}, got {tensor.datatype}'
            )
        rank = len(self.shape)
        shape = tensor.shape + [1] * (rank - len(tensor.shape)) if rank else tensor.shape
        fits = all(size == 1 for size in shape[rank:]) and all(
            size == own or own == -1 or isinstance(own, str)
            for size, own in zip(shape, self.shape, strict=False)
        )
        if rank and not fits:
            raise InvalidRequest(
                f'input "{tensor.name}": the model takes shape {self.metadata.shape}, got {tensor.shape}'
            )
        array = decode_array(tensor) if tensor.datatype != "BYTES" else object_array(decode_strings(tensor))
        return array.reshape(shape[:rank] if rank else shape)


class TensorModel(ArtefactModel):
    """Runs an artefact on named inputs, and returns the requested outputs or, by default, all."""

    libraries = LIBRARIES
    selects_outputs: ClassVar[bool | None] = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._artefact: Any = None
        self._takes: dict[str, TensorSpec] = {}
        self._returns: dict[str, TensorSpec] = {}

    def takes(self, artefact: Any) -> Sequence[TensorSpec]:
        """Return the inputs of an artefact."""
        raise NotImplementedError

    def returns(self, artefact: Any) -> Sequence[TensorSpec]:
        """Return the outputs of an artefact."""
        raise NotImplementedError

    def run(self, arrays: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """Run the artefact with an array per input, and return the named outputs, by default all."""
        raise NotImplementedError

    async def load(self) -> bool:
        self._artefact = await self._read()
        self._takes = {spec.name: spec for spec in self.takes(self._artefact)}
        self._returns = {spec.name: spec for spec in self.returns(self._artefact)}
        self._check_batching()
        if not self.inputs and all(spec.datatype for spec in self._takes.values()):
            self.inputs = [spec.metadata for spec in self._takes.values()]
        if not self.outputs:
            self.outputs = [spec.metadata for spec in self._returns.values()]
        return True

    async def unload(self) -> bool:
        self._artefact = None
        return True

    def _check_batching(self) -> None:
        """Raise ModelLoadFailed if batching is enabled but a tensor has no dimension for rows."""
        if not self._gathers:
            return
        for what, specs in (("input", self._takes), ("output", self._returns)):
            for spec in specs.values():
                if not spec.has_rows:
                    raise self._build_load_error(
                        f'max_batch_time has to be 0, because the shape of {what} "{spec.name}" is '
                        f"{spec.metadata.shape}, without a dimension for the rows of several requests"
                    )

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        names = [output.name for output in payload.outputs or ()]
        if self._returns:
            _check_names("output", names, self._returns)
        arrays = decode_arrays(self._takes, payload)
        with self._convert_client_errors(payload):
            results = self.run(arrays, names)
        _check_names("output", names, results)
        outputs = [_output(name, results[name]) for name in names or results]
        return InferenceResponse.of(self.name, outputs, self.version)


def decode_arrays(takes: Mapping[str, TensorSpec], request: InferenceRequest) -> dict[str, Array]:
    """Return an array for each input of an artefact. A single input may have any name.

    Raises InvalidRequest for missing, unknown or invalid inputs.
    """
    if len(takes) == 1 and len(request.inputs) == 1:
        return {name: spec.array(request.inputs[0]) for name, spec in takes.items()}
    given = {tensor.name: tensor for tensor in request.inputs}
    _check_names("input", given, takes)
    for name in takes:
        if name not in given:
            raise InvalidRequest(f'input "{name}" is missing')
    arrays = {name: spec.array(given[name]) for name, spec in takes.items()}
    _check_dimensions(takes, arrays)
    return arrays


def _check_dimensions(takes: Mapping[str, TensorSpec], arrays: Mapping[str, Array]) -> None:
    """Raise InvalidRequest if dimensions with the same name differ. Framework errors would name operators."""
    sizes: dict[str, tuple[str, int]] = {}
    for name, array in arrays.items():
        for size, own in zip(array.shape, takes[name].shape, strict=False):
            if isinstance(own, str):
                first, expected = sizes.setdefault(own, (name, size))
                if size != expected:
                    raise InvalidRequest(
                        f'input "{name}": its dimension "{own}" is {size}, '
                        f'and that of input "{first}" is {expected}'
                    )


def _check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidRequest(f'{what} "{name}" is not one of the model\'s {what}s: {", ".join(known)}')


def decode_strings(tensor: RequestInput) -> list[str]:
    """Return the strings of a tensor. Raises InvalidRequest for null, and CodecError for invalid UTF-8."""
    texts = StringCodec.decode_input(tensor)
    if (missing := next((at for at, text in enumerate(texts) if text is None), None)) is not None:
        raise InvalidRequest(f'input "{tensor.name}": element {missing} is null, not a text')
    return texts


def _output(name: str, array: Array) -> ResponseOutput:
    """Return an output with the array's exact shape, which codecs would change for scalars and vectors."""
    parameters = Parameters.of(None, "str") if array.dtype.kind in "OU" else None
    output = encode_array(ResponseOutput, name, array, parameters)
    output.shape = list(array.shape)
    return output
