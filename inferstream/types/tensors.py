"""Tensors of requests and responses, and names of outputs that a client asks for."""

from typing import Annotated, Any, Self, TypeVar

from pydantic import BeforeValidator, WithJsonSchema

from .datatypes import NAMES, Datatype, unknown
from .parameters import Parameters
from .payload import ABSENT, Payload, new
from .tensor import TensorData


def _datatype_name(value: Any) -> Any:
    name = NAMES.get(value) if isinstance(value, str) else None
    if name is None:
        raise ValueError(unknown(value))
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
            and type(parameters) in PARAMETERS
            and data is not ABSENT
            and self.exact
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
