"""Inference requests and responses (Open Inference Protocol, "Inference Request JSON Object")."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from pydantic import Field

from .base import BaseModel, FieldValues
from .forms import InputsForm, OutputForm
from .parameters import CarriedHeaders, Headers, Parameters
from .payload import ABSENT, Payload, new
from .tensor import TensorData
from .tensors import RequestInput, RequestOutput, ResponseOutput

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class InferenceRequest(
    Payload,
    fields={
        "id": (str | None, None),
        # Always present, because model code can read the headers from it.
        "parameters": (Parameters | None, Field(default_factory=lambda: Parameters.aside(Headers(())))),
        "inputs": (list[RequestInput], ...),
        "outputs": (list[RequestOutput] | None, None),
    },
):
    """An inference request.

    If `id` is missing, the server generates one. `outputs` selects the outputs by name. If it is missing, the
    model returns all outputs. The transport headers are in `parameters.headers`.
    """

    # If `form` is set, the request holds `values` by name instead of tensors, which saves a quarter of the
    # time of a small REST call. Reading or setting `inputs` converts it to tensors.
    __slots__ = ("_headers", "_inputs", "_parameters", "form", "id", "outputs", "references", "values")

    _headers: Mapping[str, str] | None
    _parameters: Parameters | None
    form: InputsForm | None
    id: str | None
    outputs: list[RequestOutput] | None
    references: tuple[str, ...]
    """Names of tensor parameters that refer to data elsewhere, which no stage has fetched yet."""
    values: dict[str, Any]

    def _begin(self) -> None:
        self.form = None
        self.references = ()

    @classmethod
    def of(
        cls,
        inputs: list[RequestInput],
        id: str | None = None,
        parameters: Parameters | None = None,
        outputs: list[RequestOutput] | None = None,
    ) -> Self:
        """Create a request from checked tensors, without validation."""
        request = new(cls)
        request.form = request._headers = None
        request.references = ()
        request.id = id
        request.outputs = outputs
        request._parameters = parameters
        request._inputs = inputs
        return request

    @classmethod
    def of_values(cls, form: InputsForm, values: dict[str, Any], id: str | None = None) -> Self:
        """Create a request from values that fit `form`, without validation."""
        request = new(cls)
        request.form = form
        request.references = ()
        request.id = id
        request.values = values
        request._headers = request._parameters = request.outputs = None
        return request

    def __getstate__(self) -> tuple[None, FieldValues]:
        empty, slots = super().__getstate__()
        parameters = slots.get("_parameters")
        if parameters is not None and not parameters.given:
            # A copy of the parameters would lose the marker that the client did not send them, and dumps
            # would include them.
            slots |= {
                "_parameters": None,
                "_headers": Headers(()) if parameters.headers is None else parameters.headers,
            }
        return empty, slots

    @property
    def inputs(self) -> list[RequestInput]:
        form = self.form
        if form is not None:
            self.inputs = [
                RequestInput.of(name, [1], form.datatypes[name], TensorData([value]))
                for name, value in self.values.items()
            ]
        return self._inputs

    @inputs.setter
    def inputs(self, inputs: list[RequestInput]) -> None:
        self.form = None
        self._inputs = inputs

    @property
    def parameters(self) -> Parameters | None:
        if self._parameters is None and self._headers is not None:
            self._parameters = Parameters.aside(self._headers)
        return self._parameters

    @parameters.setter
    def parameters(self, parameters: Parameters | None) -> None:
        self._headers = None
        self._parameters = parameters

    def resolve(self, reference: str) -> None:
        """Remove `reference` from `references`, once the tensors that use it have their data."""
        self.references = tuple(each for each in self.references if each != reference)

    def by_name(self, read: Callable[[RequestInput], T]) -> dict[str, T]:
        """Return the input values by name. `read` converts a tensor to its value."""
        if self.form is not None:
            return self.values
        return {tensor.name: read(tensor) for tensor in self._inputs}

    @property
    def carried(self) -> CarriedHeaders | None:
        """A function that builds a copy of the transport headers, and its arguments. None without headers."""
        headers = self._headers if self._parameters is None else self._parameters.headers
        if headers is None:
            return None
        return headers.carried if isinstance(headers, Headers) else (dict, headers)

    def carry(self, headers: Mapping[str, str]) -> Parameters | None:
        """Attach the transport headers. Returns the parameters, or None if there are none yet."""
        parameters = self._parameters
        if parameters is None:
            self._headers = headers
        else:
            parameters.carry(headers)
        return parameters


_OUTPUTS = {ResponseOutput}


class ResponseVisitor(Protocol[T_co]):
    """Handles a response according to its representation: a single value or tensors."""

    def value(self, form: OutputForm, response: "InferenceResponse") -> T_co:
        """Handle a response whose `value` fits `form`. `tensors` also accepts such a response."""

    def tensors(self, response: "InferenceResponse") -> T_co:
        """Handle any other response."""


class _BesideValue(Generic[T]):
    """A response field that is read from the form, if the response has one.

    Setting it converts the response to tensors.
    """

    __slots__ = ("_name", "_slot")

    def __set_name__(self, owner: object, name: str) -> None:
        self._name = name
        self._slot = f"_{name}"

    def __get__(self, response: "InferenceResponse", owner: object) -> T:
        form = response.form
        value: T = getattr(response, self._slot) if form is None else getattr(form, self._name)
        return value

    def __set__(self, response: "InferenceResponse", value: T) -> None:
        if response.form is not None:
            response._expand(response.form)
        setattr(response, self._slot, value)


class _Parameters(property):
    """The parameters of a response.

    The getter runs for every token, so it is implemented without a Python frame.
    """

    if TYPE_CHECKING:

        def __get__(  # type: ignore[override]  # the signature of `property` accepts any object
            self, response: Any, owner: type | None = None, /
        ) -> Parameters | None: ...


class InferenceResponse(
    Payload,
    fields={
        "model_name": (str, ...),
        "model_version": (str | None, None),
        "id": (str | None, None),
        "parameters": (Parameters | None, None),
        "outputs": (list[ResponseOutput], ...),
    },
):
    """An inference response: a single response, or one item of a stream.

    The server sets `id`, and `model_version` if it is missing. `parameters.headers` are sent as transport
    headers.
    """

    # If `form` is set, the response holds one `value` (a string, bytes, a number or a boolean) and neither
    # tensors nor parameters. Reading `outputs`, or setting any field except `id`, converts it to tensors.
    __slots__ = ("_model_name", "_model_version", "_outputs", "_parameters", "form", "id", "value")

    _parameters: Parameters | None
    form: OutputForm | None
    id: str | None
    value: Any

    def __init__(
        self,
        *,
        model_name: Any = ABSENT,
        model_version: Any = None,
        id: Any = None,
        parameters: Any = None,
        outputs: Any = ABSENT,
        **others: Any,
    ) -> None:
        if (
            type(model_name) is str
            and type(outputs) is list
            and (
                type(outputs[0]) is ResponseOutput if len(outputs) == 1 else {*map(type, outputs)} <= _OUTPUTS
            )
            and (model_version is None or type(model_version) is str)
            and (id is None or type(id) is str)
            and (parameters is None or type(parameters) is Parameters)
            and self.exact
            and not others
        ):
            # pydantic would accept this, too, but its validation takes five times as long.
            self.form = None
            self.id = id
            self._model_name = model_name
            self._model_version = model_version
            self._parameters = parameters
            self._outputs = [*outputs]
            return
        super().__init__(
            model_name=model_name,
            model_version=model_version,
            id=id,
            parameters=parameters,
            outputs=outputs,
            **others,
        )

    def _begin(self) -> None:
        self.form = None

    @classmethod
    def of(
        cls,
        model_name: str,
        outputs: list[ResponseOutput],
        model_version: str | None = None,
        id: str | None = None,
        parameters: Parameters | None = None,
    ) -> Self:
        """Create a response from checked tensors, without validation."""
        response = new(cls)
        response.form = None
        response.id = id
        response._model_name = model_name
        response._model_version = model_version
        response._parameters = parameters
        response._outputs = outputs
        return response

    model_name = _BesideValue[str]()
    model_version = _BesideValue[str | None]()

    def _set_parameters(self, parameters: Parameters | dict[str, Any] | None) -> None:
        """Accept the types that the constructor accepts, including dictionaries."""
        if self.form is not None:
            self._expand(self.form)
        self._parameters = Parameters(**parameters) if isinstance(parameters, dict) else parameters

    parameters = _Parameters(attrgetter("_parameters"), _set_parameters)

    @property
    def outputs(self) -> list[ResponseOutput]:
        if self.form is not None:
            self._expand(self.form)
        return self._outputs

    @outputs.setter
    def outputs(self, outputs: list[ResponseOutput]) -> None:
        if self.form is not None:
            self._expand(self.form)
        self._outputs = outputs

    def _expand(self, form: OutputForm) -> None:
        """Convert the value to a tensor."""
        data = TensorData([self.value], binary=form.base64)
        self.form = None
        self._model_name = form.model_name
        self._model_version = form.model_version
        self._outputs = [ResponseOutput.of(form.name, [*form.shape], form.datatype, data)]

    def accept(self, visitor: ResponseVisitor[T]) -> T:
        """Pass the response to the matching method of the visitor, and return its result."""
        form = self.form
        return visitor.tensors(self) if form is None else visitor.value(form, self)


def respond(form: OutputForm, value: Any, request_id: str | None) -> InferenceResponse:
    """Create a response from a value that fits `form`, without validation.

    This is a function because calling a class method would make a token 10 % slower.
    """
    response = new(InferenceResponse)
    response.form = form
    response.value = value
    response.id = request_id
    response._parameters = None
    return response


class InferenceErrorResponse(BaseModel):
    """The body of a failed V2 request."""

    error: str | None = None
