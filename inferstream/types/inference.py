"""Inference requests and responses (Open Inference Protocol, "Inference Request JSON Object" and on)."""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from .base import BaseModel
from .datatypes import NAMES, Datatype
from .forms import InputsForm, OutputForm
from .parameters import Headers, Parameters
from .payload import ABSENT, Payload, new
from .tensor import TensorData


def _datatype_name(value: Any) -> Any:
    name = NAMES.get(value) if isinstance(value, str) else None
    if name is None:
        raise ValueError(f"unknown datatype {value!r}; known are {', '.join(Datatype.__members__)}")
    return name


DatatypeName = Annotated[
    str,
    BeforeValidator(_datatype_name),
    WithJsonSchema({"type": "string", "enum": list(Datatype.__members__)}),
]


_SIZES = {int}
_TEXTS = {str, type(None)}
_PARAMETERS = (Parameters, type(None))

AnyTensor = TypeVar("AnyTensor", "RequestInput", "ResponseOutput")
T = TypeVar("T")


class Tensor(Payload):
    """A tensor. Values assigned to `data` become a `TensorData`."""

    __slots__ = ("_data", "datatype", "name", "parameters", "shape")

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters | None

    def __init__(
        self,
        *,
        name: Any = ABSENT,
        shape: Any = ABSENT,
        datatype: Any = ABSENT,
        parameters: Any = None,
        data: Any = ABSENT,
        **others: Any,
    ) -> None:
        if (
            type(name) is str
            and type(shape) is list
            and {*map(type, shape)} <= _SIZES
            and type(datatype) is str
            and datatype in NAMES
            and type(parameters) in _PARAMETERS
            and data is not ABSENT
            and not others
        ):
            # What pydantic finds sound too, in a third of its time.
            self.name = name
            self.shape = [*shape]
            self.datatype = datatype
            self.parameters = parameters
            self.data = data
            return
        super().__init__(
            name=name, shape=shape, datatype=datatype, parameters=parameters, data=data, **others
        )

    @classmethod
    def of(
        cls,
        name: str,
        shape: list[int],
        datatype: str,
        data: TensorData,
        parameters: Parameters | None = None,
    ) -> Self:
        """A tensor of checked values, without validation."""
        tensor = new(cls)
        tensor.name = name
        tensor.shape = shape
        tensor.datatype = datatype
        tensor.parameters = parameters
        tensor._data = data
        return tensor

    @property
    def data(self) -> TensorData:
        return self._data

    @data.setter
    def data(self, values: Any) -> None:
        self._data = values if isinstance(values, TensorData) else TensorData(values)


_TENSOR = {
    "name": (str, ...),
    "shape": (list[int], ...),
    "datatype": (DatatypeName, ...),
    "parameters": (Parameters | None, None),
    "data": (TensorData, ...),
}


class RequestInput(Tensor, fields=_TENSOR):
    """One input tensor.

    `shape` holds one size per dimension. `data` holds as many values as the product of the sizes, in row-major
    order. `datatype` is a name of `Datatype`.
    """

    what = "input"


class ResponseOutput(Tensor, fields=_TENSOR):
    """One output tensor.

    `shape` holds one size per dimension. `data` holds as many values as the product of the sizes, in row-major
    order. `datatype` is a name of `Datatype`.
    """

    what = "output"


class RequestOutput(Payload, fields={"name": (str, ...), "parameters": (Parameters | None, None)}):
    """The name of an output that the client asks for."""

    __slots__ = ("name", "parameters")

    name: str
    parameters: Parameters | None

    @classmethod
    def of(cls, name: str, parameters: Parameters | None = None) -> Self:
        """A checked name, without validation."""
        output = new(cls)
        output.name = name
        output.parameters = parameters
        return output


class InferenceRequest(
    Payload,
    fields={
        "id": (str | None, None),
        # Model code may read the headers there.
        "parameters": (Parameters | None, Field(default_factory=lambda: Parameters.aside(Headers(())))),
        "inputs": (list[RequestInput], ...),
        "outputs": (list[RequestOutput] | None, None),
    },
):
    """A request to a model.

    The server sets `id` if the client did not. `outputs` names the outputs that the client asks for; None is all.
    Headers are in `parameters.headers`.
    """

    # Where `form` is not None, the request holds `values` that fit it, by name, and no tensors: two tensors and their
    # request were a quarter of a small REST call. Who reads or sets `inputs` turns it into a request of tensors.
    __slots__ = ("__weakref__", "_headers", "_inputs", "_parameters", "form", "id", "outputs", "values")

    _headers: Mapping[str, str] | None
    _parameters: Parameters | None
    form: InputsForm | None
    id: str | None
    outputs: list[RequestOutput] | None
    values: dict[str, Any]

    def _begin(self) -> None:
        self.form = None

    @classmethod
    def of(
        cls,
        inputs: list[RequestInput],
        id: str | None = None,
        parameters: Parameters | None = None,
        outputs: list[RequestOutput] | None = None,
    ) -> Self:
        """A request of checked tensors, without validation."""
        request = new(cls)
        request.form = request._headers = None
        request.id = id
        request.outputs = outputs
        request._parameters = parameters
        request._inputs = inputs
        return request

    @classmethod
    def of_values(cls, form: InputsForm, values: dict[str, Any], id: str | None = None) -> Self:
        """A request of values that fit `form`."""
        request = new(cls)
        request.form = form
        request.id = id
        request.values = values
        request._headers = request._parameters = request.outputs = None
        return request

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

    def carry(self, headers: Mapping[str, str]) -> Parameters | None:
        """Hold the headers of the transport. Returns the parameters, or None if there are none yet."""
        parameters = self._parameters
        if parameters is None:
            self._headers = headers
        else:
            parameters.carry(headers)
        return parameters


_OUTPUTS = {ResponseOutput}


class _BesideValue(Generic[T]):
    """A field of a response. In one of a value it is what the form says; who sets it gets a response of tensors."""

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
            response.expand(response.form)
        setattr(response, self._slot, value)


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
    """A response of a model: a single response, or one item of a stream.

    The server sets `id`, and `model_version` if it is absent. `parameters.headers` become headers of the transport.
    """

    # Where `form` is not None, the response holds one `value` that fits it, and no tensor: text, bytes, a number or a
    # boolean. Who sets a field other than `id`, or reads `outputs`, turns it into a response of tensors.
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
            and {*map(type, outputs)} <= _OUTPUTS
            and {type(model_version), type(id)} <= _TEXTS
            and type(parameters) in _PARAMETERS
            and not others
        ):
            # What pydantic finds sound too, in a third of its time.
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
        """A response of checked tensors, without validation."""
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
    parameters = _BesideValue[Parameters | None]()

    @property
    def outputs(self) -> list[ResponseOutput]:
        if self.form is not None:
            self.expand(self.form)
        return self._outputs

    @outputs.setter
    def outputs(self, outputs: list[ResponseOutput]) -> None:
        if self.form is not None:
            self.expand(self.form)
        self._outputs = outputs

    def expand(self, form: OutputForm) -> None:
        """Hold the value as a tensor."""
        data = TensorData([self.value], binary=form.base64)
        self.form = self._parameters = None
        self._model_name = form.model_name
        self._model_version = form.model_version
        self._outputs = [ResponseOutput.of(form.name, [*form.shape], form.datatype, data)]


def respond(form: OutputForm, value: Any, request_id: str | None) -> InferenceResponse:
    """A response with a value that fits `form`. A function, because a class method costs a tenth of a token more."""
    response = new(InferenceResponse)
    response.form = form
    response.value = value
    response.id = request_id
    return response


class InferenceErrorResponse(BaseModel):
    """The body of a failed V2 request."""

    error: str | None = None
