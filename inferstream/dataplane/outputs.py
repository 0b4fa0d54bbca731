"""Validation and completion of model responses, and the selection of the requested outputs."""

import logging
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from ..errors import InvalidOutput, InvalidRequest
from ..tokens import TokenWriter
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestOutput,
    ResponseOutput,
    TensorData,
)
from ..types.datatypes import NAMES, describe_unknown
from ..types.forms import OutputForm
from ..types.inference import respond
from ..types.json_encoding import decode, encode
from ..types.payload import new
from .checks import Strictness, counts_characters, find_duplicate, fits

if TYPE_CHECKING:
    from .execution.payloads import Payloads

logger = logging.getLogger("inferstream.dataplane")

PLAIN_PARAMETERS = {str, bool, int, float, type(None)}
NESTED = {list, dict}
"""Types of parameters that may contain an integer beyond 64 bits, which neither JSON nor gRPC supports."""

LEAST, MOST = -(2**63), 2**63 - 1

Rewriter = Callable[[list[ResponseOutput], Sequence[RequestOutput]], list[ResponseOutput]]
"""Rewrites outputs according to the requested outputs and their parameters. Raises InvalidRequest."""


class OutputWriter(Protocol):
    """Converts return values that are not responses to responses."""

    form: OutputForm | None
    """The form of values that are valid by construction. None if every value must be validated."""

    def write(self, value: Any) -> InferenceResponse | None:
        """Convert a value to a response with a tensor.

        Returns None if the value cannot be converted. Raises InvalidOutput.
        """


class Finish:
    """Converts a model's return value to a response for the client. `choose_finish` chooses the subclass.

    `selected` is `MLModel.selects_outputs`. If it is True, the model selects the requested outputs itself. It
    may then return the columns of a data frame that was requested by a single name.
    """

    def __init__(
        self,
        model: str,
        version: str | None,
        selected: bool | None,
        declared: Sequence[MetadataTensor] = (),
        writer: OutputWriter | None = None,
    ) -> None:
        self._model = model
        self._version = version
        self._selected = selected
        self._writer = writer or TokenWriter(model, version, declared)
        self._form = self._writer.form
        self.place = ""
        """The location of the model code that creates the responses, for the log."""
        self.rewriters: Sequence[Rewriter] = ()
        """Functions of plug-ins that rewrite the requested outputs."""
        self._has_warned_of_duplicates = False

    def __call__(self, response: object, request: InferenceRequest) -> InferenceResponse:
        """Validate a response, set the request's id, and select the requested outputs.

        A response that already has an id belongs to the model, which may reuse it. It is copied instead of
        being modified.

        Raises InvalidOutput if the response is invalid, or InvalidRequest if a requested output does not
        exist.
        """
        if type(response) is not InferenceResponse:
            form = self._form
            if form is not None and not request.outputs and form.fits(response):
                return respond(form, response, request.id)
            response = self._response(response)
        return self._complete(response, request.id, request.outputs)

    def _response(self, value: object) -> InferenceResponse:
        """Convert a return value that is not exactly an InferenceResponse. Raises InvalidOutput."""
        if isinstance(value, InferenceResponse):
            return value
        try:
            written = self._writer.write(value)
            if written is None:
                raise InvalidOutput(
                    f"Model {self._model} answered a {type(value).__name__} instead of an InferenceResponse."
                )
            return written
        except InvalidOutput as error:
            error.add_note(self.place)
            raise

    def _complete(
        self, response: InferenceResponse, request_id: str | None, wanted: Sequence[RequestOutput] | None
    ) -> InferenceResponse:
        """Apply the checks and changes that all responses need. See `__call__`."""
        # This converts a response with a form to tensors, which fills the slots below.
        outputs = response.outputs
        name, version = response._model_name, response._model_version
        if (name is not None and type(name) is not str) or (version is not None and type(version) is not str):
            raise InvalidOutput(
                f"Model {self._model} answered model_name {name!r} and model_version {version!r}, not texts."
            )
        parameters = response._parameters
        if parameters is not None and parameters.__pydantic_extra__:
            self._make_plain(parameters.__pydantic_extra__)
        for tensor in outputs:
            self.check(tensor)
            parameters = tensor.parameters
            if parameters is not None and parameters.__pydantic_extra__:
                self._make_plain(parameters.__pydantic_extra__)
        if len(outputs) > 1 and len({tensor.name for tensor in outputs}) != len(outputs):
            self._warn_of_duplicates(outputs)
        if wanted:
            if not self._selected:
                outputs = _select_requested_outputs(outputs, wanted, refusing=self._selected is False)
            for rewrite in self.rewriters:
                outputs = rewrite(outputs, wanted)
        elif response.id is None:
            # Almost all responses are new, and completing them in place avoids a copy per token.
            response.id = request_id
            if not name:
                response._model_name = self._model
            if not version:
                response._model_version = self._version
            return response
        return InferenceResponse.of(
            name or self._model, outputs, version or self._version, request_id, response.parameters
        )

    def of(self, payloads: "Payloads") -> Callable[[Any], InferenceResponse]:
        """Return a faster version for the items of a stream, which reads the requested outputs only once."""
        form, wanted = self._form, payloads.current.outputs
        kind = None if wanted or form is None or form.kind is int else form.kind
        complete = self._complete  # The bound method, because calling the object takes 40 ns longer.

        def finish(item: Any) -> InferenceResponse:
            given = type(item)
            if given is InferenceResponse:
                return complete(item, payloads.current.id, wanted)
            if given is kind:
                response = new(InferenceResponse)  # `respond` inlined: a frame costs 2 % per token.
                response.form = form
                response.value = item
                response.id = payloads.current.id
                response._parameters = None
                return response
            return self(item, payloads.current)

        return finish

    def check(self, tensor: object) -> None:
        """Raise InvalidOutput unless this item of `outputs` is a valid tensor."""
        if not isinstance(tensor, ResponseOutput):
            raise InvalidOutput(f"Model {self._model} answered an output that is a {type(tensor).__name__}.")
        name, datatype = tensor.name, tensor.datatype
        if not isinstance(name, str):
            raise InvalidOutput(f"Model {self._model} answered an output of name {name!r}, which is no text.")
        if datatype not in NAMES:
            raise InvalidOutput(
                f'Model {self._model} answered output "{name}" of {describe_unknown(datatype)}.'
            )
        try:
            shape = tensor.shape
            for size in shape:
                if type(size) is not int or size < 0:
                    shape = tensor.shape = _infer_shape(tensor)
                    break
            try:
                tensor._data.check(datatype, shape)  # Without the property: a frame costs 1 % per token.
            except ValueError:
                if not counts_characters(tensor):
                    raise
                tensor.shape = [len(tensor.data.flat())]  # Clients build strings according to the shape.
        except (ValueError, TypeError, AttributeError) as error:
            raise self._wrong(tensor, error) from error

    def _warn_of_duplicates(self, outputs: Sequence[ResponseOutput]) -> None:
        """Log once that a response contains two outputs with the same name, which MLServer permits."""
        if not self._has_warned_of_duplicates:
            self._has_warned_of_duplicates = True
            name = find_duplicate(outputs)
            logger.warning('model %s returns more than one output named "%s"', self._model, name)

    def _make_plain(self, parameters: dict[str, Any]) -> None:
        """Convert values such as arrays to types that JSON and gRPC support. Raises InvalidOutput."""
        for name, value in parameters.items():
            try:
                if type(value) not in PLAIN_PARAMETERS:
                    value = parameters[name] = decode(encode(value))
                if (kind := type(value)) in NESTED or (kind is int and not LEAST <= value <= MOST):
                    orjson.dumps(value)
            except (TypeError, ValueError) as error:
                reason = f'Model {self._model} answered a wrong parameter "{name}": {error}.'
                raise InvalidOutput(reason) from error

    def _wrong(self, tensor: ResponseOutput, reason: object) -> InvalidOutput:
        return InvalidOutput(f'Model {self._model} answered a wrong output "{tensor.name}": {reason}.')


class FinishUnchecked(Finish):
    """Accepts any values in any shape, like MLServer."""

    def check(self, tensor: object) -> None:
        if type(tensor) is ResponseOutput:
            data: object = tensor.data
            if type(data) is TensorData and not data.binary:
                data.checked = False
        Finish.check(self, tensor)


class FinishDeclared(Finish):
    """Compares outputs with their declaration.

    Raises InvalidOutput for a mismatch if `strict`, or logs it once.
    """

    def __init__(
        self,
        model: str,
        version: str | None,
        selected: bool | None,
        declared: Sequence[MetadataTensor],
        strict: bool,
        writer: OutputWriter | None = None,
    ) -> None:
        super().__init__(model, version, selected, declared, writer)
        if not all(fits([1] * len(tensor.shape), tensor.shape, strict) for tensor in declared):
            self._form = None
        self._declared = {tensor.name: tensor for tensor in declared}
        self._fitting: dict[str, list[int] | None] = dict.fromkeys(self._declared)
        """The last valid shape of each output."""
        self._strict = strict
        self._warned: set[str] = set()

    def check(self, tensor: object) -> None:
        Finish.check(self, tensor)
        assert isinstance(tensor, ResponseOutput)
        declared = self._declared.get(tensor.name)
        if declared is not None and (
            tensor.shape != self._fitting[tensor.name] or tensor.datatype != declared.datatype
        ):
            self._compare(tensor, declared)

    def _compare(self, tensor: ResponseOutput, its: MetadataTensor) -> None:
        if tensor.datatype == its.datatype and fits(tensor.shape, its.shape, self._strict):
            self._fitting[tensor.name] = [*tensor.shape]
            return
        difference = f"it is declared as {its.datatype} {its.shape}, got {tensor.datatype} {tensor.shape}"
        if self._strict:
            raise self._wrong(tensor, difference)
        if tensor.name not in self._warned:
            self._warned.add(tensor.name)
            logger.warning('model %s, output "%s": %s', self._model, tensor.name, difference)


def choose_finish(
    model: str,
    version: str | None,
    selected: bool | None,
    declared: Sequence[MetadataTensor],
    strictness: Strictness,
    writer: OutputWriter | None = None,
) -> Finish:
    """Choose the `Finish` of a model when it loads. `declared` are its declared outputs.

    `writer` converts the return values of a function. By default, only strings are converted.
    """
    if strictness == "off":
        return FinishUnchecked(model, version, selected, declared, writer)
    if declared:
        return FinishDeclared(model, version, selected, declared, strictness == "strict", writer)
    return Finish(model, version, selected, (), writer)


def _select_requested_outputs(
    outputs: list[ResponseOutput], wanted: Sequence[RequestOutput], refusing: bool
) -> list[ResponseOutput]:
    """Return the requested outputs, in the requested order.

    If one is missing, all outputs are returned, or InvalidRequest is raised if `refusing`.
    """
    produced = {tensor.name: tensor for tensor in outputs}
    try:
        selected = [produced[output.name] for output in wanted]
        if len(produced) == len(outputs):
            return selected
        return [tensor for output in wanted for tensor in outputs if tensor.name == output.name]
    except KeyError as missing:
        if not refusing:
            return outputs
        known = ", ".join(produced)
        raise InvalidRequest(f"output {missing} is not one of the model's outputs: {known}") from None


def _infer_shape(tensor: ResponseOutput) -> list[int]:
    """Return the shape of an output with its -1 replaced by the size that fits the number of values.

    Raises ValueError if no size fits, or for any other invalid size.
    """
    shape, array = tensor.shape, tensor.data.array
    sizes = [size for size in shape if size != -1]
    if len(sizes) != len(shape) - 1 or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError(f"shape {shape} holds something that is not a size")
    count = len(tensor.data.flat()) if array is None else array.size
    rest = prod(sizes)
    if not rest or count % rest:
        raise ValueError(f"{count} values do not fill shape {shape}")
    return [count // rest if size == -1 else size for size in shape]
