"""Validation of inputs: shapes, datatypes, values, and the model's declaration."""

from collections.abc import Awaitable, Sequence
from math import prod
from typing import Literal, Protocol

from ..codecs.values.base import OPTIONAL, fact
from ..errors import InvalidRequest
from ..protos.counts import expect_tensors
from ..protos.references import reject_reference
from ..settings import ModelSettings
from ..signature import Signature
from ..types import InferenceRequest, MetadataTensor, RequestInput, RequestOutput, ResponseOutput
from .call import Call, Handler
from .counts import CountedRequests, Counts
from .reply import Reply

Strictness = Literal["declared", "strict", "off"]

MAX_NAME_BYTES = 256
MAX_RANK = 32
MAX_ELEMENTS = 2**48
"""Far above the size of any body, and far below the number at which NumPy's size arithmetic overflows."""


MLSERVER = "mlserver_"
"""Prefix of MLServer runtime names. Settings files may also refer to our runtimes by these names."""


def resolve_strictness(settings: ModelSettings, for_mlserver: bool) -> Strictness:
    """Resolve the setting `input_validation`.

    `for_mlserver` is whether the model was written for MLServer.
    """
    chosen = settings.input_validation
    if chosen != "auto":
        return chosen
    if for_mlserver or settings.implementation_.startswith(MLSERVER):
        return "off"
    return "strict" if settings.configuration else "declared"


class Checks(Protocol):
    """Validates requests to one model."""

    def check(self, request: InferenceRequest) -> None:
        """Raise InvalidRequest if the request violates the protocol or does not match the model."""

    def counts_rows(self, tensor: RequestInput) -> bool:
        """Whether the model declares the first dimension of a valid input as the batch dimension."""


def choose_checks(signature: Signature, strictness: Strictness, most_rows: int = 0) -> Checks:
    """Choose the checks of a model when it loads.

    Inputs that are derived from annotations are checked only if `strictness` is "strict". Outputs that are
    derived from annotations are never checked. If checks are strict, batches are limited to `most_rows` rows,
    unless it is 0.

    Raises TypeError if the signature contains anything other than MetadataTensor objects.
    """
    for tensor in (*(signature.inputs or ()), *(signature.outputs or ())):
        if not isinstance(tensor, MetadataTensor):
            raise TypeError(f"a {type(tensor).__name__} among the inputs and outputs is not a MetadataTensor")
    if signature.function:
        return OfFunction(signature.inputs or (), signature.outputs or ())
    if strictness == "off":
        return NoDeclaration()
    strict = strictness == "strict"
    inputs = (signature.inputs or ()) if strict else signature.declared_inputs
    declaration = Declaration(inputs, signature.declared_outputs, strict, not signature.inputs_annotated)
    return RowsChecked(declaration, most_rows) if strict and most_rows else declaration


def max_batch_size(settings: ModelSettings) -> int:
    """Return the maximum batch size in the model's `config.pbtxt`, or 0 if it has none."""
    size: int = settings.configuration.get("max_batch_size", 0)
    return size


def add_checks(inner: Handler, checks: Checks, counts: Counts) -> Handler:
    """Wrap a handler to validate the first request of each call, and to limit the values in later ones.

    Raises InvalidRequest for a request that refers to external data, unless another stage has fetched it.
    Later requests cannot use such references.
    """

    async def handle_with_counts(call: Call) -> Reply:
        checks.check(await counts.check_request(call.request))
        return await inner(call)

    lists = counts.lists

    def handle(call: Call) -> Awaitable[Reply]:
        request = call.request
        if call.more is not None:
            call.more = CountedRequests(call.more, counts)
        if request.form is None:
            if request.references:
                reject_reference(request.references[0])
            for tensor in request._inputs:  # Inlined, because most requests have nothing to count.
                if tensor.datatype == "BYTES" or (lists and tensor.name in lists):
                    if counts.estimate_bytes(request):
                        return handle_with_counts(call)
                    break
        checks.check(request)
        return inner(call)

    return handle


class OfFunction:
    """Checks tensor counts, names and shapes.

    A function does not check them when it decodes its arguments.
    """

    def __init__(self, inputs: Sequence[MetadataTensor], outputs: Sequence[MetadataTensor]) -> None:
        self._rows = {tensor.name for tensor in inputs if tensor.shape[:1] == [-1]}
        self._outputs = frozenset(tensor.name for tensor in outputs)

    def check(self, request: InferenceRequest) -> None:
        if request.form is not None:
            return  # A form guarantees valid, distinct inputs.
        inputs = request.inputs
        expect_tensors(len(inputs), "inputs")
        for tensor in inputs:
            if tensor.shape != [1]:
                check_shape(tensor)
        if len(inputs) > 1 and len({tensor.name for tensor in inputs}) != len(inputs):
            raise InvalidRequest(f'input "{find_duplicate(inputs)}" is given twice')
        if request.outputs:
            check_outputs(request.outputs, self._outputs)

    def counts_rows(self, tensor: RequestInput) -> bool:
        """Whether the shape matches the number of values.

        In a batch, an extra value would go to the next caller.
        """
        if tensor.name not in self._rows:
            return False
        try:
            tensor.data.check(tensor.datatype, tensor.shape)
        except (ValueError, TypeError, OverflowError):
            return False
        return True


class NoDeclaration:
    """Performs only the checks that protect the server, like MLServer. Values are not checked."""

    def check(self, request: InferenceRequest) -> None:
        inputs = request.inputs
        expect_tensors(len(inputs), "inputs")
        for tensor in inputs:
            tensor.data.checked = False
            check_input(tensor, strict=True)
        if len(inputs) > 1 and len({tensor.name for tensor in inputs}) != len(inputs):
            raise InvalidRequest(f'input "{find_duplicate(inputs)}" is given twice')
        if request.outputs:
            _check_outputs(request.outputs)

    def counts_rows(self, tensor: RequestInput) -> bool:
        return bool(tensor.shape) and tensor.data.is_sound(tensor.datatype, tensor.shape)


class Declaration:
    """A model's declared inputs and outputs, indexed when the model loads.

    If `strict`, a request must have exactly the declared inputs in the declared shapes. Otherwise, inputs may
    be missing or undeclared. A shape may differ by trailing ones ([N] and [N, 1], which MLServer codecs send)
    or by a leading batch dimension, and the shape of strings may count characters.

    If `shapes` is False, any shape is accepted, because codecs accept any shape.
    """

    def __init__(
        self,
        inputs: Sequence[MetadataTensor],
        outputs: Sequence[MetadataTensor],
        strict: bool,
        shapes: bool = True,
    ) -> None:
        self._strict = strict
        self._shapes = shapes
        self._inputs = {tensor.name: tensor for tensor in inputs}
        self._outputs = frozenset(tensor.name for tensor in outputs)
        self._required = [tensor.name for tensor in inputs if strict and not fact(tensor, OPTIONAL)]

    def check(self, request: InferenceRequest) -> None:
        inputs = request.inputs
        expect_tensors(len(inputs), "inputs")
        names = set()
        for tensor in inputs:
            check_input(tensor, self._strict)
            names.add(tensor.name)
            if self._inputs:
                self._check_input(tensor)
        if len(names) != len(inputs):
            raise InvalidRequest(f'input "{find_duplicate(inputs)}" is given twice')
        for name in self._required:
            if name not in names:
                raise InvalidRequest(f'input "{name}" is missing')
        if request.outputs:
            check_outputs(request.outputs, self._outputs)

    def counts_rows(self, tensor: RequestInput) -> bool:
        shape = tensor.shape
        if not shape or (tensor.datatype == "BYTES" and counts_characters(tensor)):
            return False
        declared = self._inputs.get(tensor.name)
        if declared is None or not self._shapes:
            return True
        sizes = declared.shape
        if len(sizes) == len(shape) and sizes[0] == -1:
            return True  # The input is valid, so the other dimensions match.
        return fits([shape[0] + 1, *shape[1:]], sizes, self._strict)

    def _check_input(self, tensor: RequestInput) -> None:
        name, datatype, shape = tensor.name, tensor.datatype, tensor.shape
        declared = self._inputs.get(name)
        if declared is None:
            if not self._strict:
                return
            known = ", ".join(self._inputs)
            raise InvalidRequest(f'input "{name}" is not one of the model\'s inputs: {known}')
        if declared.datatype != datatype:
            raise InvalidRequest(f'input "{name}": the model takes {declared.datatype}, got {datatype}')
        if not fits(shape, declared.shape, self._strict) and self._shapes:
            raise InvalidRequest(f'input "{name}": the model takes shape {declared.shape}, got {shape}')


class RowsChecked:
    """Checks a `Declaration`, and that all inputs have the same number of rows, up to a maximum."""

    def __init__(self, declaration: Declaration, most: int) -> None:
        self._declaration = declaration
        self.counts_rows = declaration.counts_rows
        self._most = most

    def check(self, request: InferenceRequest) -> None:
        self._declaration.check(request)
        first: RequestInput | None = None
        for tensor in request.inputs:
            rows = tensor.shape[0] if tensor.shape else 0
            if first is None:
                first = tensor
                if rows > self._most:
                    raise InvalidRequest(
                        f'input "{tensor.name}" has {rows} rows; the model takes {self._most} (max_batch_size)'
                    )
            elif rows != first.shape[0]:
                raise InvalidRequest(
                    f'input "{tensor.name}" has {rows} rows, and "{first.name}" has {first.shape[0]}'
                )


def check_outputs(outputs: Sequence[RequestOutput], known: frozenset[str]) -> None:
    """Raise InvalidRequest for duplicate or unknown outputs. If `known` is empty, any name is accepted."""
    names = _check_outputs(outputs)
    if known and not names <= known:
        unknown = next(output.name for output in outputs if output.name not in known)
        raise InvalidRequest(
            f'output "{unknown}" is not one of the model\'s outputs: {", ".join(sorted(known))}'
        )


def _check_outputs(outputs: Sequence[RequestOutput]) -> set[str]:
    expect_tensors(len(outputs), "outputs")
    names = {output.name for output in outputs}
    if len(names) != len(outputs):
        raise InvalidRequest(f'output "{find_duplicate(outputs)}" is requested twice')
    return names


def find_duplicate(tensors: Sequence[object]) -> str:
    names = [str(tensor.name) for tensor in tensors]  # type: ignore[attr-defined]  # inputs or outputs
    return next(name for name in names if names.count(name) > 1)


def fits(shape: list[int], declared: list[int], strict: bool) -> bool:
    """Whether a shape matches its declaration.

    Unless `strict`, trailing ones or a batch dimension may differ.
    """
    if _matches(shape, declared):
        return True
    if strict:
        return False
    missing = len(declared) - len(shape)
    return _matches(shape + [1] * missing, declared + [1] * -missing) or _matches(shape[1:], declared)


def _matches(shape: list[int], declared: list[int]) -> bool:
    if len(shape) != len(declared):
        return False
    for size, expected in zip(shape, declared):  # noqa: B905, SIM110  # a generator is 2x slower
        if expected not in (-1, size):
            return False
    return True


def check_input(tensor: RequestInput, strict: bool = False) -> None:
    """Raise InvalidRequest if an input is inconsistent. Unless `strict`, shapes may count characters."""
    name, shape = tensor.name, tensor.shape
    if not name or len(name) > MAX_NAME_BYTES or not name.isprintable():
        raise InvalidRequest(f"input name {name[:40]!r} is empty, too long or not printable")
    check_shape(tensor)
    try:
        tensor.data.check(tensor.datatype, shape)
    except ValueError as error:
        if strict or not counts_characters(tensor):
            raise InvalidRequest(f'input "{name}": {error}') from None


def check_shape(tensor: RequestInput) -> None:
    """Raise InvalidRequest if a shape has too many dimensions, or sizes that are negative or too large."""
    name, shape = tensor.name, tensor.shape
    if len(shape) > MAX_RANK:
        raise InvalidRequest(f'input "{name}": shape has {len(shape)} dimensions, {MAX_RANK} are allowed')
    elements = 1
    for size in shape:
        if type(size) is not int or size < 0:
            raise InvalidRequest(f'input "{name}": {size!r} in shape is not a size')
        elements *= size or 1
    if elements > MAX_ELEMENTS:
        raise InvalidRequest(f'input "{name}": shape {shape} holds too many values')


def counts_characters(tensor: RequestInput | ResponseOutput) -> bool:
    """Whether a shape also counts the characters of strings: [11] or [1, 11] for one string of 11 characters.

    MLServer's documentation contains such requests and models. Some count characters, others bytes.
    """
    shape = tensor.shape
    if tensor.datatype != "BYTES" or prod(shape) == 1:
        return False
    try:
        values = tensor.data.flat()
    except ValueError:  # Ragged or truncated.
        return False
    if not values or not all(isinstance(value, (str, bytes)) for value in values):
        return False
    rows, characters = (1, prod(shape)) if len(values) == 1 else (shape[0], prod(shape[1:]))
    if len(values) != rows or characters == 1:
        return False
    longest = max(len(value.encode() if isinstance(value, str) else value) for value in values)
    return 1 < characters <= longest
