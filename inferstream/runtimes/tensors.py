"""The base of runtimes of named tensors, whose artefact says which tensors it takes and returns."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from inferstream import ModelSettings, StringCodec
from inferstream.ext.runtimes import ArtefactModel
from inferstream.ext.values import Array, decode_array, encode_array, object_array
from inferstream.plugins.frameworks.libraries import LIBRARIES

from ..errors import InvalidRequest
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    ResponseOutput,
)


class TensorSpec(NamedTuple):
    """What an artefact says of one of its tensors.

    A dimension is its size, -1 if any size will do, or a name: dimensions of one name have one size. An empty shape is
    that of a single value, or not known. Of some artefacts the datatype is not known either.
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
        """Whether its first dimension may be the rows of several requests."""
        if self.datatype is None:
            return True
        return bool(self.shape) and (isinstance(self.shape[0], str) or self.shape[0] == -1)

    def array(self, tensor: RequestInput) -> Array:
        """The array of a request's tensor, whose shape may differ by trailing ones. Raises InvalidRequest."""
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
        array = decode_array(tensor) if tensor.datatype != "BYTES" else object_array(texts_of(tensor))
        return array.reshape(shape[:rank] if rank else shape)


class TensorModel(ArtefactModel):
    """Runs an artefact on the inputs of a request by name, and returns the outputs that the request names, else all."""

    libraries = LIBRARIES
    selects_outputs: ClassVar[bool | None] = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._artefact: Any = None
        self._takes: dict[str, TensorSpec] = {}
        self._returns: dict[str, TensorSpec] = {}

    def takes(self, artefact: Any) -> Sequence[TensorSpec]:
        """The inputs of an artefact."""
        raise NotImplementedError

    def returns(self, artefact: Any) -> Sequence[TensorSpec]:
        """The outputs of an artefact."""
        raise NotImplementedError

    def run(self, arrays: Mapping[str, Array], outputs: Sequence[str]) -> Mapping[str, Array]:
        """The arrays of these outputs, or of all, for an array for each input."""
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
        """Raise ModelLoadFailed if several requests cannot be one."""
        if not self._gathers:
            return
        for what, specs in (("input", self._takes), ("output", self._returns)):
            for spec in specs.values():
                if not spec.has_rows:
                    raise self._failed(
                        f'max_batch_time has to be 0, because the shape of {what} "{spec.name}" is '
                        f"{spec.metadata.shape}, without a dimension for the rows of several requests"
                    )

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        names = [output.name for output in payload.outputs or ()]
        if self._returns:
            _check_names("output", names, self._returns)
        arrays = arrays_of(self._takes, payload)
        with self._blaming_the_client(payload):
            results = self.run(arrays, names)
        _check_names("output", names, results)
        outputs = [_output(name, results[name]) for name in names or results]
        return InferenceResponse.of(self.name, outputs, self.version)


def arrays_of(takes: Mapping[str, TensorSpec], request: InferenceRequest) -> dict[str, Array]:
    """An array for each input of an artefact. An only input may have any name. Raises InvalidRequest."""
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
    """Raise InvalidRequest unless dimensions of one name have one size. Frameworks speak of their operators."""
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


def texts_of(tensor: RequestInput) -> list[str]:
    """The texts of a tensor. Raises InvalidRequest for a missing one, CodecError for what is no text."""
    texts = StringCodec.decode_input(tensor)
    if (missing := next((at for at, text in enumerate(texts) if text is None), None)) is not None:
        raise InvalidRequest(f'input "{tensor.name}": element {missing} is null, not a text')
    return texts


def _output(name: str, array: Array) -> ResponseOutput:
    """The tensor of an array in its own shape, which codecs change where it has one dimension or none."""
    parameters = Parameters.of(None, "str") if array.dtype.kind in "OU" else None
    output = encode_array(ResponseOutput, name, array, parameters)
    output.shape = list(array.shape)
    return output
