"""Responses of a model on their way out: checked, completed, and reduced to what the client asked for."""

import logging
from collections.abc import Callable, Sequence
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
from ..types.datatypes import NAMES, unknown
from ..types.forms import OutputForm
from ..types.inference import respond
from ..types.json_encoding import decode, encode
from ..types.payload import new
from .checks import Strictness, counts_characters, duplicate, fits

if TYPE_CHECKING:
    from .execution.payloads import Payloads

logger = logging.getLogger("inferstream.dataplane")

PLAIN_PARAMETERS = {str, bool, int, float, type(None)}
NESTED = {list, dict}
"""Types of parameters that may hold an integer beyond 64 bits, which neither JSON nor gRPC has."""

LEAST, MOST = -(2**63), 2**63 - 1

Rewriter = Callable[[list[ResponseOutput], Sequence[RequestOutput]], list[ResponseOutput]]
"""Makes other outputs of those that a client asks for, and of what it says of each. Raises InvalidRequest."""


class OutputWriter(Protocol):
    """Makes responses of what a model returns that is no response."""

    form: OutputForm | None
    """The form of values that need no check; None if every value needs one."""

    def write(self, value: Any) -> InferenceResponse | None:
        """The response of a value, with a tensor; None for what stands for none. Raises InvalidOutput."""


class Finish:
    """Makes of a model's response one that may reach its client; `finish_of` says which kind a model has.

    `selected` is what the model says of itself, `MLModel.selects_outputs`: one that has chosen the outputs
    may answer a data frame, asked for by one name, as its columns.
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
        """Where the code is that makes the responses, for the log."""
        self.rewriters: Sequence[Rewriter] = ()
        """What plug-ins make of the outputs that a client asks for."""

    def __call__(self, response: object, request: InferenceRequest) -> InferenceResponse:
        """The response, checked, with the request's id and only the outputs the client asked for.

        A response that already carries an id is one the model keeps and reuses: what belongs to this request
        goes into a copy of it.
        Raises InvalidOutput for a response that must not reach a client, InvalidRequest for an output
        that was asked for and does not exist.
        """
        if type(response) is not InferenceResponse:
            form = self._form
            if form is not None and not request.outputs and form.fits(response):
                return respond(form, response, request.id)
            response = self._response(response)
        return self._complete(response, request.id, request.outputs)

    def _response(self, value: object) -> InferenceResponse:
        """What a model returned that is no plain InferenceResponse, as a response. Raises InvalidOutput."""
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
        """The rest of `__call__`."""
        outputs = response.outputs  # after which the response is one of tensors, and has these slots
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
            raise InvalidOutput(f'Model {self._model} answered output "{duplicate(outputs)}" twice.')
        if wanted:
            if not self._selected:
                outputs = _requested(outputs, wanted, refusing=self._selected is False)
            for rewrite in self.rewriters:
                outputs = rewrite(outputs, wanted)
        elif response.id is None:
            # A fresh response, as nearly all are: completing it in place spares a copy per token.
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
        """The same for the items of one stream. What depends on the first request is looked up once."""
        form, wanted = self._form, payloads.current.outputs
        kind = None if wanted or form is None or form.kind is int else form.kind
        complete = self._complete  # a method, because a call of an object costs 40 ns more

        def finish(item: Any) -> InferenceResponse:
            given = type(item)
            if given is InferenceResponse:
                return complete(item, payloads.current.id, wanted)
            if given is kind:
                response = new(InferenceResponse)  # as `respond`, whose frame costs a token 2 %
                response.form = form
                response.value = item
                response.id = payloads.current.id
                response._parameters = None
                return response
            return self(item, payloads.current)

        return finish

    def check(self, tensor: object) -> None:
        """Raise InvalidOutput unless what the model put into `outputs` is a sound tensor."""
        if not isinstance(tensor, ResponseOutput):
            raise InvalidOutput(f"Model {self._model} answered an output that is a {type(tensor).__name__}.")
        name, datatype = tensor.name, tensor.datatype
        if not isinstance(name, str):
            raise InvalidOutput(f"Model {self._model} answered an output of name {name!r}, which is no text.")
        if datatype not in NAMES:
            raise InvalidOutput(f'Model {self._model} answered output "{name}" of {unknown(datatype)}.')
        try:
            shape = tensor.shape
            for size in shape:
                if type(size) is not int or size < 0:
                    raise ValueError(f"shape {shape} holds something that is not a size")
            try:
                tensor._data.check(datatype, shape)  # without the property, whose frame costs a token 1 %
            except ValueError:
                if not counts_characters(tensor):
                    raise
                tensor.shape = [len(tensor.data.flat())]  # clients give texts the shape they are told
        except (ValueError, TypeError, AttributeError) as error:
            raise self._wrong(tensor, error) from error

    def _make_plain(self, parameters: dict[str, Any]) -> None:
        """Replace values such as arrays by what JSON and gRPC hold. Raises InvalidOutput."""
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
    """Lets any values go out in any shape, as MLServer does."""

    def check(self, tensor: object) -> None:
        if type(tensor) is ResponseOutput:
            data: object = tensor.data
            if type(data) is TensorData and not data.binary:
                data.checked = False
        Finish.check(self, tensor)


class FinishDeclared(Finish):
    """Holds outputs against their declaration: what differs is refused if `strict`, else logged once."""

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
        """The last shape of each output that fitted."""
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


def finish_of(
    model: str,
    version: str | None,
    selected: bool | None,
    declared: Sequence[MetadataTensor],
    strictness: Strictness,
    writer: OutputWriter | None = None,
) -> Finish:
    """What finishes the responses of a model that declares these outputs, chosen once when it loads.

    `writer` makes responses of a function's values; by default texts are the only values.
    """
    if strictness == "off":
        return FinishUnchecked(model, version, selected, declared, writer)
    if declared:
        return FinishDeclared(model, version, selected, declared, strictness == "strict", writer)
    return Finish(model, version, selected, (), writer)


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
