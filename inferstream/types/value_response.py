"""`ValueResponse`: a response of one value, which becomes a tensor only where somebody reads its outputs."""

from itertools import count
from typing import TYPE_CHECKING, Any

from .inference import InferenceResponse, ResponseOutput
from .tensor import TensorData

_numbers = count()

_TENSOR = {"name", "shape", "datatype", "data"}
_RESPONSE = {"model_name", "model_version", "id", "outputs"}


class OutputForm:
    """Everything of a response of one value but the value and the request's id. Made once, when the model loads.

    `base64` tells that the value is `bytes` which JSON holds as base64.
    """

    __slots__ = ("base64", "datatype", "model_name", "model_version", "name", "number", "shape")

    def __init__(
        self,
        model_name: str,
        model_version: str | None,
        name: str,
        datatype: str,
        shape: list[int],
        base64: bool = False,
    ) -> None:
        self.model_name = model_name
        self.model_version = model_version
        self.name = name
        self.datatype = datatype
        self.shape = shape
        self.base64 = base64
        self.number = next(_numbers)
        """Unique in this process."""

    def output(self, value: Any) -> ResponseOutput:
        """The tensor of a value."""
        fields = {
            "name": self.name,
            "shape": [*self.shape],
            "datatype": self.datatype,
            "parameters": None,
            "data": TensorData([value]),
        }
        return ResponseOutput.filled(fields, _TENSOR.copy())


if TYPE_CHECKING:
    _Base = InferenceResponse
else:
    _Base = object  # a pydantic model costs 0.5 µs more


class ValueResponse(_Base):
    """A response whose only output holds one value: text, bytes, a number or a boolean that fits its `form`.

    It has the attributes of an `InferenceResponse`, and makes its tensor at the first access to `outputs`. Writers
    that know `form` and `value` need no tensor. Code of users gets `whole(response)`.
    """

    __slots__ = ("_outputs", "form", "id", "value")

    if TYPE_CHECKING:
        form: OutputForm
        value: Any

    else:

        def __init__(self, form: OutputForm, value: Any, request_id: str | None) -> None:
            self.form = form
            self.value = value
            self.id = request_id

        parameters = None

        @property
        def model_name(self) -> str:
            return self.form.model_name

        @property
        def model_version(self) -> str | None:
            return self.form.model_version

        @property
        def outputs(self) -> list[ResponseOutput]:
            try:
                return self._outputs
            except AttributeError:
                self._outputs = [self.form.output(self.value)]
                return self._outputs


def respond(form: OutputForm, value: Any, request_id: str | None) -> ValueResponse:
    """A response with a value that fits `form`."""
    return ValueResponse(form, value, request_id)  # type: ignore[call-arg, misc]


def whole(response: InferenceResponse) -> InferenceResponse:
    """A response as a plain `InferenceResponse`, which code of users may dump and change."""
    if type(response) is not ValueResponse:
        return response
    fields = {
        "model_name": response.model_name,
        "model_version": response.model_version,
        "id": response.id,
        "parameters": None,
        "outputs": response.outputs,
    }
    return InferenceResponse.filled(fields, _RESPONSE.copy())
