"""Does a tensor agree with its shape, its datatype and what the model declares? Pure functions."""

from collections.abc import Sequence
from math import prod
from typing import Literal

from ..errors import InvalidOutput, InvalidRequest
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)
from ..types.datatypes import NAMES

Strictness = Literal["lenient", "strict", "off"]

MAX_TENSORS = 256
MAX_NAME_BYTES = 256
MAX_RANK = 32
MAX_ELEMENTS = 2**48
"""Far above any body, far below where NumPy's own arithmetic overflows."""


class Declaration:
    """What a model declares of its inputs and outputs, indexed once when it loads.

    `lenient` lets a shape differ from the declared one by trailing ones ([N] and [N, 1], as MLServer's
    codecs send) and by one leading batch dimension, and that of texts count their characters; `strict`
    does neither; `off` looks at no declaration.
    """

    __slots__ = ("_inputs", "_outputs", "_required", "_strict")

    def __init__(
        self,
        inputs: Sequence[MetadataTensor],
        outputs: Sequence[MetadataTensor],
        strictness: Strictness,
    ) -> None:
        off = strictness == "off"
        self._strict = strictness == "strict"
        self._inputs = {} if off else {tensor.name: tensor for tensor in inputs}
        self._outputs = frozenset() if off else frozenset(tensor.name for tensor in outputs)
        self._required = [tensor.name for tensor in self._inputs.values() if not _optional(tensor)]

    def check(self, request: InferenceRequest) -> None:
        """Raise InvalidRequest, naming the culprit, unless the request fits the protocol and the model."""
        inputs = request.inputs
        if len(inputs) > MAX_TENSORS:
            raise InvalidRequest(f"{len(inputs)} inputs are more than the {MAX_TENSORS} allowed")
        names = set()
        for tensor in inputs:
            check_input(tensor, self._strict)
            names.add(tensor.name)
            if self._inputs:
                self._check_declared(tensor)
        if len(names) != len(inputs):
            raise InvalidRequest(f'input "{_duplicate(inputs)}" is given twice')
        for name in self._required:
            if name not in names:
                raise InvalidRequest(f'input "{name}" is missing')
        if request.outputs:
            self._check_outputs(request)

    def counts_rows(self, tensor: RequestInput) -> bool:
        """Whether a valid input's first dimension is a number of rows, as far as the declaration says."""
        shape = tensor.shape
        if not shape or (tensor.datatype == "BYTES" and _counts_characters(tensor)):
            return False
        declared = self._inputs.get(tensor.name)
        if declared is None:
            return True
        sizes = declared.shape
        if len(sizes) == len(shape) and sizes[0] == -1:
            return True  # as the input is valid, the rest of its shape fits
        return _fits([shape[0] + 1, *shape[1:]], sizes, self._strict)

    def _check_declared(self, tensor: RequestInput) -> None:
        name, datatype, shape = tensor.name, tensor.datatype, tensor.shape
        declared = self._inputs.get(name)
        if declared is None:
            known = ", ".join(self._inputs)
            raise InvalidRequest(f'input "{name}" is not one of the model\'s inputs: {known}')
        if declared.datatype != datatype:
            raise InvalidRequest(f'input "{name}": the model takes {declared.datatype}, got {datatype}')
        if not _fits(shape, declared.shape, self._strict):
            raise InvalidRequest(f'input "{name}": the model takes shape {declared.shape}, got {shape}')

    def _check_outputs(self, request: InferenceRequest) -> None:
        outputs = request.outputs or []
        if len(outputs) > MAX_TENSORS:
            raise InvalidRequest(f"{len(outputs)} outputs are more than the {MAX_TENSORS} allowed")
        names = {output.name for output in outputs}
        if len(names) != len(outputs):
            raise InvalidRequest(f'output "{_duplicate(outputs)}" is requested twice')
        if self._outputs and not names <= self._outputs:
            unknown = next(output.name for output in outputs if output.name not in self._outputs)
            raise InvalidRequest(
                f'output "{unknown}" is not one of the model\'s outputs: {", ".join(sorted(self._outputs))}'
            )


def _optional(tensor: MetadataTensor) -> bool:
    return tensor.parameters is not None and bool(tensor.parameters.get("optional"))


def _duplicate(tensors: Sequence[object]) -> str:
    names = [str(tensor.name) for tensor in tensors]  # type: ignore[attr-defined]  # inputs or outputs
    return next(name for name in names if names.count(name) > 1)


def _fits(shape: list[int], declared: list[int], strict: bool) -> bool:
    if _matches(shape, declared):
        return True
    if strict:
        return False
    return _matches(_squeezed(shape), _squeezed(declared)) or _matches(shape[1:], declared)


def _matches(shape: list[int], declared: list[int]) -> bool:
    if len(shape) != len(declared):
        return False
    for size, expected in zip(shape, declared):  # noqa: B905, SIM110  # as long; a generator costs as much again
        if expected not in (-1, size):
            return False
    return True


def _squeezed(shape: list[int]) -> list[int]:
    end = len(shape)
    while end and shape[end - 1] == 1:
        end -= 1
    return shape[:end]


def check_input(tensor: RequestInput, strict: bool = False) -> None:
    """Raise InvalidRequest unless name, shape, datatype and data of one input agree.

    Unless `strict`, a shape of texts may count their characters too.
    """
    name, shape = tensor.name, tensor.shape
    if not name or len(name) > MAX_NAME_BYTES or not name.isprintable():
        raise InvalidRequest(f"input name {name[:40]!r} is empty, too long or not printable")
    if len(shape) > MAX_RANK:
        raise InvalidRequest(f'input "{name}": shape has {len(shape)} dimensions, {MAX_RANK} are allowed')
    elements = 1
    for size in shape:
        if type(size) is not int or size < 0:
            raise InvalidRequest(f'input "{name}": {size!r} in shape is not a size')
        elements *= size or 1
    if elements > MAX_ELEMENTS:
        raise InvalidRequest(f'input "{name}": shape {shape} holds too many values')
    try:
        tensor.data.check(tensor.datatype, shape)
    except ValueError as error:
        if strict or not _counts_characters(tensor):
            raise InvalidRequest(f'input "{name}": {error}') from None


def _counts_characters(tensor: RequestInput | ResponseOutput) -> bool:
    """Whether a shape goes on behind the texts, [11] or [1, 11] for one of eleven letters.

    MLServer's documentation writes requests and models so, counting letters or bytes as it comes.
    """
    shape = tensor.shape
    if tensor.datatype != "BYTES" or prod(shape) == 1:
        return False
    values = tensor.data.flat()
    if not values or not all(isinstance(value, (str, bytes)) for value in values):
        return False
    rows, characters = (1, prod(shape)) if len(values) == 1 else (shape[0], prod(shape[1:]))
    if len(values) != rows or characters == 1:
        return False
    longest = max(len(value.encode() if isinstance(value, str) else value) for value in values)
    return 1 < characters <= longest


def check_output(tensor: object, model: str) -> None:
    """Raise InvalidOutput unless what a model put into `outputs` is a sound tensor."""
    if not isinstance(tensor, ResponseOutput):
        raise InvalidOutput(f"Model {model} answered an output that is a {type(tensor).__name__}.")
    if not isinstance(tensor.name, str):
        raise InvalidOutput(f"Model {model} answered an output of name {tensor.name!r}, which is no text.")
    if tensor.datatype not in NAMES:
        raise InvalidOutput(
            f'Model {model} answered output "{tensor.name}" of unknown datatype {tensor.datatype!r}.'
        )
    try:
        shape = tensor.shape
        for size in shape:
            if type(size) is not int or size < 0:
                raise ValueError(f"shape {shape} holds something that is not a size")
        try:
            tensor.data.check(tensor.datatype, shape)
        except ValueError:
            if not _counts_characters(tensor):
                raise
            tensor.shape = [len(tensor.data.flat())]  # clients give texts the shape they are told
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidOutput(f'Model {model} answered a wrong output "{tensor.name}": {error}.') from error


def finish(
    response: object,
    request: InferenceRequest,
    model: str,
    version: str | None,
    selected: bool | None = False,
) -> InferenceResponse:
    """A model's response, checked, with the request's id and only the outputs the client asked for.

    `selected` is what the model says of itself, `MLModel.selects_outputs`: one that has chosen the outputs
    may answer a data frame, asked for by one name, as its columns.
    A response that already carries an id is one the model keeps and reuses: what belongs to this request
    goes into a copy of it.
    Raises InvalidOutput for a response that must not reach a client, InvalidRequest for an output
    that was asked for and does not exist.
    """
    if not isinstance(response, InferenceResponse):
        raise InvalidOutput(
            f"Model {model} answered a {type(response).__name__} instead of an InferenceResponse."
        )
    for said in (response.model_name, response.model_version):
        if said is not None and not isinstance(said, str):
            raise InvalidOutput(
                f"Model {model} answered model_name or model_version {said!r}, which is no text."
            )
    outputs = response.outputs
    for tensor in outputs:
        check_output(tensor, model)
    if len(outputs) > 1 and len({tensor.name for tensor in outputs}) != len(outputs):
        raise InvalidOutput(f'Model {model} answered output "{_duplicate(outputs)}" twice.')
    if request.outputs and not selected:
        outputs = _requested(outputs, request.outputs, refusing=selected is False)
    elif response.id is None:
        # A fresh response, as nearly all are: completing it in place spares a copy per token.
        fields = response.__dict__
        fields["id"] = request.id
        fields["model_name"] = fields["model_name"] or model
        fields["model_version"] = fields["model_version"] or version
        response.__pydantic_fields_set__.update(_COMPLETED)
        return response
    given: dict[str, object] = {
        "model_name": response.model_name or model,
        "model_version": response.model_version or version,
        "id": request.id,
        "outputs": outputs,
    }
    if response.parameters is not None:
        given["parameters"] = response.parameters
    return InferenceResponse.trusted(given)


_COMPLETED = ("id", "model_name", "model_version")


def _requested(
    outputs: list[ResponseOutput], wanted: Sequence[RequestOutput], refusing: bool
) -> list[ResponseOutput]:
    """The outputs the client asked for, in its order.

    Where one is not there, all outputs are answered, or InvalidRequest is raised if `refusing`.
    """
    produced = {tensor.name: tensor for tensor in outputs}
    try:
        return [produced[output.name] for output in wanted]
    except KeyError as missing:
        if not refusing:
            return outputs
        known = ", ".join(produced)
        raise InvalidRequest(f"output {missing} is not one of the model's outputs: {known}") from None
