"""`ValuesRequest`: a request of single values, which become tensors only where somebody reads its inputs."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from .inference import InferenceRequest, Parameters, RequestInput
from .tensor import TensorData

KINDS: dict[str, type[Any]] = {"INT64": int, "FP64": float, "BYTES": str, "BOOL": bool}
"""The types of values that need no conversion, by datatype."""

LEAST, LARGEST = -(2**63), 2**63 - 1


class InputsForm:
    """The inputs of a model that are all single values. Made once, when the model loads."""

    __slots__ = ("datatypes", "kinds", "required")

    def __init__(self, datatypes: Mapping[str, str], optional: Collection[str] = ()) -> None:
        self.datatypes = dict(datatypes)
        self.kinds = {name: KINDS[datatype] for name, datatype in datatypes.items()}
        self.required = frozenset(datatypes).difference(optional)

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether these are the values of a request, each of the right type. Others may fit after a conversion."""
        kinds = self.kinds
        for name, value in values.items():
            kind = kinds.get(name)
            if type(value) is not kind or (kind is int and not LEAST <= value <= LARGEST):
                return False
        return len(values) == len(kinds) or self.required <= values.keys()

    def inputs(self, values: Mapping[str, Any]) -> list[RequestInput]:
        """The tensors of values."""
        return [
            RequestInput.filled(
                {
                    "name": name,
                    "shape": [1],
                    "datatype": self.datatypes[name],
                    "parameters": None,
                    "data": TensorData([value]),
                }
            )
            for name, value in values.items()
        ]


if TYPE_CHECKING:

    class ValuesRequest(InferenceRequest):
        """See below; to type checkers, it is what it stands for."""

        form: InputsForm
        values: dict[str, Any]
        headers: Mapping[str, str] | None

        def __init__(self, form: InputsForm, values: dict[str, Any], id: str | None = None) -> None: ...

else:

    class ValuesRequest(Struct, eq=False):
        """A request whose inputs are single values that fit its `form`.

        It has the attributes of an `InferenceRequest`, and makes its tensors at the first access to `inputs`. A
        function takes the values as they are: two tensors and their request were a quarter of a small REST call.
        """

        form: InputsForm
        values: dict[str, Any]
        id: str | None = None
        headers: Mapping[str, str] | None = None
        made: list[RequestInput] | None = None
        kept: Parameters | None = None

        outputs: ClassVar[None] = None

        @property
        def inputs(self) -> list[RequestInput]:
            if self.made is None:
                self.made = self.form.inputs(self.values)
            return self.made

        @property
        def parameters(self) -> Parameters:
            if self.kept is None:
                fields = {"content_type": None, "headers": self.headers}
                self.kept = Parameters.filled(fields, {"headers"})
            return self.kept


def whole_request(request: InferenceRequest) -> InferenceRequest:
    """A request as a plain `InferenceRequest`, which code of users may dump and change."""
    if type(request) is not ValuesRequest:
        return request
    fields = {"id": request.id, "parameters": request.parameters, "inputs": request.inputs, "outputs": None}
    return InferenceRequest.filled(fields, {"id", "parameters", "inputs"})
