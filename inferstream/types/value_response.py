"""`ValueResponse`: a response of one value, which becomes a tensor only where somebody reads its outputs."""

from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from .inference import InferenceResponse, ResponseOutput
from .tensor import BinaryData, TensorData

_numbers = count()


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
            "data": BinaryData([value]) if self.base64 else TensorData([value]),
        }
        return ResponseOutput.filled(fields)


if TYPE_CHECKING:

    class ValueResponse(InferenceResponse):
        """See below; to type checkers, it is what it stands for."""

        form: OutputForm
        value: Any

        def __init__(self, form: OutputForm, value: Any, id: str | None) -> None: ...

else:

    class ValueResponse(Struct, eq=False, gc=False):
        """A response whose only output holds one value: text, bytes, a number or a boolean that fits its `form`.

        It has the attributes of an `InferenceResponse`, and makes its tensor at the first access to `outputs`.
        Writers that know `form` and `value` need no tensor. Code of users gets `whole(response)`.
        A pydantic model would cost 0.5 µs more, a class of Python 0.2.
        """

        form: OutputForm
        value: Any
        id: str | None
        made: list[ResponseOutput] | None = None

        parameters: ClassVar[None] = None

        @property
        def model_name(self) -> str:
            return self.form.model_name

        @property
        def model_version(self) -> str | None:
            return self.form.model_version

        @property
        def outputs(self) -> list[ResponseOutput]:
            if self.made is None:
                self.made = [self.form.output(self.value)]
            return self.made


def respond(form: OutputForm, value: Any, request_id: str | None) -> ValueResponse:
    """A response with a value that fits `form`."""
    return ValueResponse(form, value, request_id)


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
    return InferenceResponse.filled(fields, {"model_name", "model_version", "id", "outputs"})
