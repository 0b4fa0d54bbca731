"""Input and output tensors, and the outputs that a client requests."""

from typing import Annotated, Any, Self, TypeVar

from pydantic import BeforeValidator, WithJsonSchema

from .datatypes import NAMES, Datatype, describe_unknown
from .parameters import Parameters
from .payload import ABSENT, Payload, new
from .tensor import TensorData


def _datatype_name(value: Any) -> Any:
    name = NAMES.get(value) if isinstance(value, str) else None
    if name is None:
        raise ValueError(describe_unknown(value))
    return name


DatatypeName = Annotated[
    str,
    BeforeValidator(_datatype_name),
    WithJsonSchema({"type": "string", "enum": list(Datatype.__members__)}),
]


_SIZES = {int}
PARAMETERS = (Parameters, type(None))

AnyTensor = TypeVar("AnyTensor", "RequestInput", "ResponseOutput")


class Tensor(Payload):
    """A tensor. Values assigned to `data` are converted to a `TensorData`."""

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
            and type(parameters) in PARAMETERS
            and data is not ABSENT
            and self.exact
            and not others
        ):
            # pydantic would accept this, too, but its validation takes three times as long.
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
        """Create a tensor from checked values, without validation."""
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
    """An input tensor.

    `shape` has the size of each dimension. `data` has one value per element, in row-major order. `datatype`
    is a datatype of the protocol, such as `FP32`.
    """

    what = "input"


class ResponseOutput(Tensor, fields=_TENSOR):
    """An output tensor.

    `shape` has the size of each dimension. `data` has one value per element, in row-major order. `datatype`
    is a datatype of the protocol, such as `FP32`.
    """

    what = "output"


class RequestOutput(Payload, fields={"name": (str, ...), "parameters": (Parameters | None, None)}):
    """An output that the client requests, by name."""

    __slots__ = ("name", "parameters")

    name: str
    parameters: Parameters | None

    @classmethod
    def of(cls, name: str, parameters: Parameters | None = None) -> Self:
        """Create a requested output from a checked name, without validation."""
        output = new(cls)
        output.name = name
        output.parameters = parameters
        return output
